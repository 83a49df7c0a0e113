//! What a node puts off while it may not promise, and what it owes the holders after that (R2).

use super::{
    context::Env,
    lease::{Home, Lease, RETRY},
};
use crate::lease::{message::Caller, primitives::Moment, records::KeyState, rules::Rules};

impl<C: Caller> Lease<C> {
    /// R2, after the node's clock may have stood still, or the node could not promise for a while: the tenure does not
    /// end before one more ttl has passed since `since`. That happens once; a heartbeat permits it again. A holder that
    /// was heard since needs no more time.
    pub fn extend_by_one_ttl(&mut self, since: Moment) {
        self.close_cell();
        let ttl = self.record.own_ttl();
        let unheard = self.promised < since + ttl;
        if self.record.state == KeyState::Held && !self.graced && unheard {
            self.floor = Rules::a_lapse_moves_the_floor_to(self.floor, since, ttl);
            self.graced = true;
        }
    }

    /// Whether this node must sit out. While it may not promise, it ends no tenure, because the holders could not reach
    /// it. It puts off what is due and reports nothing.
    pub(super) fn sits_out(&mut self, env: &Env<'_>) -> bool {
        let reading = self.flight().is_some_and(|flight| flight.reading);
        if env.context.may_promise(env.now) || reading {
            return false;
        }
        match self.record.state {
            KeyState::Held if self.home != Home::Living => {
                let span = self.record.own_ttl();
                if !self.graced {
                    self.floor = Rules::a_lapse_moves_the_floor_to(self.floor, env.now, span);
                }
                if self.run_out(env.now) {
                    // A lease whose session is over has a span of zero: it is due again at once.
                    let awaited = self.waiters_len() > 0;
                    self.busy().retry_at = env.now + if awaited { RETRY } else { span.max(RETRY) };
                    return true;
                }
            }
            KeyState::Offered | KeyState::Cooling if self.home != Home::Living => {
                self.opens_at = self.opens_at.max(env.now + RETRY);
            }
            _ => {}
        }
        if let Some(busy) = &mut self.busy
            && (busy.waiters.len() > 0 || busy.retry_at != Moment::ZERO || busy.over.is_some())
        {
            busy.retry_at = env.now + RETRY;
        }
        true
    }

    /// Whether anything may be granted now.
    pub(super) fn may_grant(&self, env: &Env<'_>) -> bool {
        env.context.may_promise(env.now) && !self.is_frozen(env)
    }

    /// Whether nothing may be granted under this node's epoch.
    pub(super) fn is_frozen(&self, env: &Env<'_>) -> bool {
        Rules::nothing_is_granted_over(self.token, env.context.epoch, env.context.frozen)
    }
}
