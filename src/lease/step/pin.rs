//! Pins, which keep a tenure from expiring.

use super::{context::Env, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Request},
    primitives::Moment,
    records::{Change, ChangeKind, KeyState},
};

/// The most names that may pin one key.
pub const MAX_PINS: usize = 8;
/// The longest name of a pin, in bytes.
pub const MAX_PIN_BYTES: usize = 64;

impl<C: Caller> Lease<C> {
    /// Sets or removes a pin. Doing so twice has the same effect as doing it once.
    pub(super) fn pin(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let (by, actor, set) = match &call.request {
            Request::Pin(by, actor) => (by.clone(), actor.clone(), true),
            Request::Unpin(by, actor) => (by.clone(), actor.clone(), false),
            _ => return,
        };
        if self.is_frozen(env) {
            // What this node knows may be newer than what the store holds.
            out.push(Effect::Reply(call.caller, Answer::Frozen));
            return;
        }
        let mut pins = self.record.pins.to_vec();
        match (set, pins.iter().position(|pin| *pin == by)) {
            (true, Some(_)) | (false, None) => {
                let view = Box::new(self.view(env.now));
                out.push(Effect::Reply(call.caller, Answer::Done(view)));
                return;
            }
            (true, None) if pins.len() == MAX_PINS => {
                out.push(Effect::Reply(call.caller, Answer::TooManyPins));
                return;
            }
            (true, None) => pins.push(by.clone()),
            (false, Some(at)) => drop(pins.remove(at)),
        }
        let mut record = self.successor(env);
        record.pins = pins.into();
        record.seq += 1;
        let change = Change {
            kind: if set { ChangeKind::Pinned } else { ChangeKind::Unpinned },
            seq: record.seq,
            owner: self.record.tenure.as_ref().map(|tenure| tenure.owner.clone()),
            token: self.token,
            previous: None,
            reason: Some(by),
            actor: Some(actor),
            session: self.record.session_ref().map(|session_ref| session_ref.session),
        };
        let flight = Flight::new(record, self.revision, vec![change]).for_call(call);
        self.launch_as_home(flight, env, out);
    }

    /// The last pin was removed: the holder gets one more ttl in which to send a heartbeat.
    pub(super) fn unpinned(&mut self, now: Moment) {
        if self.record.pins.is_empty() && self.record.state == KeyState::Held {
            self.floor = self.floor.max(now + self.ttl());
        }
    }
}
