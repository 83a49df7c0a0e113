//! The queue of one key: who waits in it, who is served next, and where it moves (R9).

use super::{
    acquire::{may_be_granted, takes_back},
    context::Env,
    lease::{Home, Lease, RETRY},
    repeat::repeated,
    waiters::Waiter,
};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, StoreError},
    primitives::Moment,
    records::KeyState,
    rules::Rules,
};

impl<C: Caller> Lease<C> {
    /// Whether a caller in the queue is entitled to the key and will be granted it as soon as the store is asked again. A
    /// new caller must not overtake it.
    pub(super) fn would_overtake(&self, now: Moment) -> bool {
        let shut = self.record.state == KeyState::Cooling && !self.opened(now);
        !shut && !self.offer_stands(now) && self.is_awaited()
    }

    pub(super) fn queue_up(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if waiter.deadline() > env.now {
            if self.waiters().is_full(env.context.waiters_per_key) {
                out.push(Effect::Reply(waiter.caller, Answer::Busy));
            } else {
                self.inquire_session(out);
                // An earlier actor of this key may have claimed the caller for a grant. That grant did not happen.
                waiter.caller.unclaim();
                let policy = env.context.policies.of(env.key.as_str());
                self.waiters().park(env.context.rules, waiter, policy);
            }
        } else if self.record.state == KeyState::Free {
            let why = "waiting callers are granted the key first, once the store accepts writes";
            let error = StoreError::Unavailable(why.into());
            out.push(Effect::Reply(waiter.caller, Answer::Store(error)));
        } else {
            self.inquire_session(out);
            let why = self.closed();
            self.refuse(waiter, why, env, out);
        }
    }

    /// Takes every caller out of the queue whose request the record already knows. Their calls are handled again
    /// instead.
    pub(super) fn recall_repeats(&mut self) {
        if self.waiters_len() == 0 {
            return;
        }
        let record = self.record.clone();
        let repeats = self.waiters().take(|waiter| repeated(&record, &waiter.acquire).is_some());
        for waiter in repeats.into_iter().rev() {
            self.busy().deferred.push_front(waiter.into());
        }
    }

    /// Takes every caller out of the queue to whom the policy that is in force now does not let the key be granted.
    pub(super) fn refuse_misplaced(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 {
            return;
        }
        let policy = env.context.policies.of(env.key.as_str());
        for waiter in self.waiters().take_unfit(policy, |acquire| may_be_granted(acquire, env)) {
            out.push(Effect::Reply(waiter.caller, Answer::NoLease));
        }
    }

    /// Grants an open key to the first caller in the queue that may have it.
    pub(super) fn serve_waiters(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 {
            return;
        }
        if self.is_spent_session(env) {
            // They asked before the session's key was spent. They are refused now.
            let late: Vec<_> = self.waiters().drain().map(Call::from).collect();
            return self.busy().deferred.extend(late);
        }
        self.refuse_misplaced(env, out);
        if self.retrying(env.now) {
            return;
        }
        if !self.may_grant(env) {
            self.busy().retry_at = env.now + RETRY;
            return;
        }
        let rules = env.context.rules;
        let next = match self.record.state {
            KeyState::Held | KeyState::Fencing => return,
            KeyState::Cooling if env.now < self.opens_at => {
                let record = self.record.clone();
                self.waiters().next(rules, |acquire| takes_back(rules, &record, acquire))
            }
            KeyState::Offered if env.now < self.opens_at => {
                let to = self.record.offer.as_ref().map(|offer| offer.to.clone());
                self.waiters().next(rules, |acquire| {
                    to.as_ref().is_some_and(|to| rules.is_owner(to, &acquire.owner))
                })
            }
            KeyState::Free | KeyState::Offered | KeyState::Cooling => {
                self.waiters().next(rules, |_| true)
            }
        };
        if let Some(waiter) = next {
            self.grant(waiter, None, env, out);
        }
    }

    /// The first caller in the queue that may be granted a key which is open to all callers.
    pub(super) fn next_waiter(&mut self, env: &Env<'_>) -> Option<Waiter<C>> {
        if self.waiters_len() == 0 || !self.may_grant(env) || self.is_spent_session(env) {
            return None;
        }
        self.waiters().next(env.context.rules, |acquire| may_be_granted(acquire, env))
    }

    /// Refuses every caller in the queue whose deadline has passed.
    pub(super) fn refuse_overdue(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.waiters_len() == 0 {
            return;
        }
        let store_error = self.busy().store_error.clone();
        for waiter in self.waiters().take_overdue(env.now) {
            match &store_error {
                Some(error) => {
                    out.push(Effect::Reply(waiter.caller, Answer::Store(error.clone())));
                }
                None => self.refuse(waiter, self.closed(), env, out),
            }
        }
    }

    /// Whether a caller would wait, and must wait at another node.
    pub(super) fn queues_elsewhere(&self, waiter: &Waiter<C>, env: &Env<'_>) -> bool {
        let acquire = &waiter.acquire;
        let tenure = self.record.tenure.as_ref();
        let several = waiter.caller.is_registration();
        let home_lives = self.home == Home::Living;
        let rules = env.context.rules;
        Rules::a_caller_waits_at_home(home_lives, waiter.home_unreachable, several)
            && self.record.state != KeyState::Free
            && waiter.deadline() > env.now
            && tenure.is_none_or(|tenure| !rules.is_owner(&tenure.owner, &acquire.owner))
            && repeated(&self.record, acquire).is_none()
            && !self.open_to(rules, acquire, env.now)
    }

    /// Moves the queue to the key's new home node.
    pub(super) fn send_home(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        if self.home != Home::Living || self.waiters_len() == 0 {
            return;
        }
        let mut waiters = std::mem::take(self.waiters());
        let moving = waiters.take(|waiter| self.queues_elsewhere(waiter, env));
        *self.waiters() = waiters;
        for waiter in moving {
            out.push(Effect::Reply(waiter.caller, Answer::Elsewhere(self.record.node)));
        }
    }
}
