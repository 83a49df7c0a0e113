//! Offers and lock-delays: while they last, and when they are over.

use super::{
    context::Env,
    draft::Draft,
    flight::Flight,
    lease::{Home, Lease},
};
use crate::lease::{
    message::{Caller, Effects},
    primitives::Moment,
    records::{Change, ChangeKind, KeyState},
};

impl<C: Caller> Lease<C> {
    pub(super) fn offer_stands(&self, now: Moment) -> bool {
        self.record.state == KeyState::Offered && now < self.opens_at
    }

    /// Whether a key that is offered or cooling is now open to all callers.
    pub(super) fn opened(&self, now: Moment) -> bool {
        now >= self.opens_at
    }

    /// Frees the key after an offer that was not taken or a lock-delay that is over. The key's actor may then leave
    /// memory.
    pub(super) fn lapse(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        let passing = matches!(self.record.state, KeyState::Offered | KeyState::Cooling);
        if passing && self.opened(env.now) && self.home != Home::Living {
            let record = self.successor(env);
            let mut draft = Draft { record, changes: Vec::new() };
            self.write_cooled(&mut draft);
            draft.record.state = KeyState::Free;
            draft.record.offer = None;
            self.launch(Flight::new(draft.record, self.revision, draft.changes), out);
        }
    }

    /// Ends the lock-delay with this write, if there is one.
    pub(super) fn write_cooled(&self, Draft { record, changes }: &mut Draft) {
        if record.state != KeyState::Cooling {
            return;
        }
        record.cool();
        record.seq += 1;
        changes.push(Change {
            kind: ChangeKind::Cooled,
            seq: record.seq,
            owner: None,
            token: self.token,
            previous: self.last_owner(),
            reason: None,
            actor: None,
            session: None,
        });
    }
}
