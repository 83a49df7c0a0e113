//! Acquiring a lease: which caller may be granted the key now, which waits, and which is refused.

use super::{
    context::Env,
    draft::End,
    lease::{Home, Lease},
    repeat::{Repeat, repeated},
    waiters::Waiter,
};
use crate::lease::{
    message::{Acquire, Answer, Caller, Effect, Effects, Refusal},
    primitives::Moment,
    records::{ChangeKind, KeyState, Record},
    rules::{Rules, valid_for},
};

impl<C: Caller> Lease<C> {
    pub(super) fn acquire(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if waiter.caller.is_gone() {
            // An earlier actor of the key may have granted this very request when it died.
            let stands = repeated(&self.record, &waiter.acquire) == Some(Repeat::Stands);
            if stands && waiter.acquire.mark.is_none() {
                out.extend(self.lease_id.map(Effect::GiveBack));
            }
            return;
        }
        if self.is_frozen(env) {
            out.push(Effect::Reply(waiter.caller, Answer::Frozen));
            return;
        }
        if !env.context.may_promise(env.now) {
            out.push(Effect::Reply(waiter.caller, Answer::Lapsed));
            return;
        }
        if let Some(repeat) = repeated(&self.record, &waiter.acquire) {
            return match repeat {
                Repeat::Stands => self.grant_again(waiter, env, out),
                Repeat::Refused(refusal) => self.refuse(waiter, refusal, env, out),
            };
        }
        if self.is_spent_session(env) {
            return self.refuse(waiter, Refusal::RequestSpent(None), env, out);
        }
        if !may_be_granted(&waiter.acquire, env) {
            out.push(Effect::Reply(waiter.caller, Answer::NoLease));
            return;
        }
        let rules = env.context.rules;
        let owner = &waiter.acquire.owner;
        let mine = self.record.tenure.as_ref().is_some_and(|t| rules.is_owner(&t.owner, owner));
        let standing = mine && !self.run_out(env.now);
        let ordered = self.record.revocation.is_some();
        let outlived = Self::is_outlived(self.token, env) && !waiter.acquire.reclaim;
        if standing && (ordered || outlived) {
            // The tenure was revoked or belongs to an earlier epoch: its old owner waits like any other caller.
            self.queue_up(waiter, env, out);
        } else if standing && waiter.acquire.reclaim {
            if env.context.rules.a_caller_may_be_granted(&waiter.caller) {
                self.grant(waiter, Some(End::of(ChangeKind::Reclaimed)), env, out);
            }
        } else if standing {
            self.refuse(waiter, Refusal::HeldByYou, env, out);
        } else if !self.open_to(rules, &waiter.acquire, env.now) || self.would_overtake(env.now) {
            self.queue_up(waiter, env, out);
        } else if env.context.rules.a_caller_may_be_granted(&waiter.caller) {
            let end = (self.record.state == KeyState::Held).then(|| self.due_end());
            self.grant(waiter, end, env, out);
        }
    }

    /// Whether this caller may be granted the key now.
    pub(super) fn open_to(&self, rules: Rules, acquire: &Acquire, now: Moment) -> bool {
        match self.record.state {
            KeyState::Free => true,
            KeyState::Held => self.run_out(now),
            KeyState::Fencing => false,
            KeyState::Cooling => self.opened(now) || takes_back(rules, &self.record, acquire),
            KeyState::Offered => {
                now >= self.opens_at
                    || self
                        .record
                        .offer
                        .as_ref()
                        .is_some_and(|offer| rules.is_owner(&offer.to, &acquire.owner))
            }
        }
    }

    /// Why no caller is granted the key now.
    pub(super) fn closed(&self) -> Refusal {
        match self.record.state {
            KeyState::Cooling => Refusal::Cooling,
            KeyState::Fencing => Refusal::Fencing,
            KeyState::Free | KeyState::Held | KeyState::Offered => Refusal::Held,
        }
    }

    /// Answers with the same grant again, and with what is left of its promise. After a restart, when this home node
    /// has promised nothing yet, it makes a promise as for a heartbeat.
    fn grant_again(&mut self, waiter: Waiter<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.home == Home::Gone {
            return self.adopt_for(waiter.into(), env, out);
        }
        if !env.context.may_promise(env.now) {
            out.push(Effect::Reply(waiter.caller, Answer::Lapsed));
            return;
        }
        if Self::is_outlived(self.token, env) {
            return self.refuse(waiter, Refusal::RequestSpent(None), env, out);
        }
        if self.record.session_ref().is_none() && self.promised <= waiter.received {
            if self.record.revocation.is_some() {
                let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
                return self.refuse(waiter, spent, env, out);
            }
            self.promised = Rules::a_promise_lasts_until(self.promised, env.now, self.ttl());
            self.graced = false;
        }
        self.unheard = false;
        let left = self.promised.since(waiter.received);
        let valid = valid_for(Moment::ZERO, Moment::ZERO, left);
        let nonce = waiter.acquire.grant_nonce;
        let again = self.record.tenure.as_ref().is_some_and(|it| it.grant_nonce != nonce);
        let grant = self.grant_view(env, valid, again);
        out.push(Effect::Reply(waiter.caller, Answer::Granted(Box::new(grant))));
    }

    pub(super) fn refuse(
        &self,
        waiter: Waiter<C>,
        why: Refusal,
        env: &Env<'_>,
        out: &mut Effects<C>,
    ) {
        let view = Box::new(self.view(env.now));
        out.push(Effect::Reply(waiter.caller, Answer::Refused(why, view)));
    }
}

/// Whether the policy that is in force now lets this request be granted the key.
pub(super) fn may_be_granted(acquire: &Acquire, env: &Env<'_>) -> bool {
    may_hold(acquire.permit, acquire.pool.as_deref(), env)
}

/// Whether the policy that is in force now makes the key a lease.
pub(super) fn is_lease(env: &Env<'_>) -> bool {
    may_hold(false, None, env)
}

fn may_hold(permit: bool, pool: Option<&str>, env: &Env<'_>) -> bool {
    let policy = env.context.policies.of(env.key.as_str());
    env.context.rules.a_key_may_be_granted(policy, env.key, permit, pool)
}

/// Whether the last owner reclaims its key while no other caller may have it.
pub(super) fn takes_back(rules: Rules, record: &Record, acquire: &Acquire) -> bool {
    let ended = record.previous.as_ref();
    acquire.reclaim
        && !acquire.place
        && ended.is_some_and(|ended| rules.is_owner(&ended.tenure.owner, &acquire.owner))
}
