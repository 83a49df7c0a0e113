//! Callers that wait for a key, served first in, first out.

use std::{collections::VecDeque, sync::Arc};

use crate::lease::{
    message::{Acquire, Call, Caller, Request},
    policy::Policy,
    primitives::Moment,
    rules::Rules,
};

/// A waiter: a caller that wants to own the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter<C> {
    pub caller: C,
    /// The node's clock when the waiter's request arrived.
    pub received: Moment,
    pub acquire: Box<Acquire>,
    /// The key's home node was asked first and does not answer.
    pub home_unreachable: bool,
}

impl<C> Waiter<C> {
    /// When the caller must be refused; in the past when it does not wait at all.
    pub fn deadline(&self) -> Moment {
        self.acquire.wait_until.unwrap_or(Moment::ZERO)
    }

    /// From when the caller waits.
    fn since(&self, rules: Rules) -> Moment {
        rules.a_place_is_had_since(self.acquire.since, self.received)
    }
}

/// The call, to be handled again from the start.
impl<C> From<Waiter<C>> for Call<C> {
    fn from(waiter: Waiter<C>) -> Self {
        let Waiter { caller, received, acquire, home_unreachable } = waiter;
        let request = Request::Acquire(acquire);
        Self { caller, received, request, home_unreachable }
    }
}

/// The queue of one key. Its user bounds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiters<C> {
    pub(super) queue: VecDeque<Waiter<C>>,
    /// No later than the earliest deadline in the queue.
    pub(super) earliest: Moment,
    /// The length of the queue at which it is next searched for callers that left.
    sweep_at: usize,
    /// The key's policy by which all of them may be granted the key. `None` if they were not all judged by one policy.
    judged_by: Option<Arc<Policy>>,
}

/// A shorter queue is not searched for callers that left.
const SWEEP_MIN: usize = 32;

impl<C> Default for Waiters<C> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            earliest: Moment::NEVER,
            sweep_at: SWEEP_MIN,
            judged_by: None,
        }
    }
}

impl<C: Caller> Waiters<C> {
    /// The number of waiters, including those that left and were not noticed yet.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether a waiter is still there.
    pub fn is_awaited(&self) -> bool {
        self.queue.iter().any(|waiter| !waiter.caller.is_gone())
    }

    /// How many waiters are still there.
    pub fn present(&self) -> usize {
        self.queue.iter().filter(|waiter| !waiter.caller.is_gone()).count()
    }

    /// The earliest moment at which [`Self::take_overdue`] may find a waiter.
    pub fn earliest(&self) -> Moment {
        if self.queue.is_empty() { Moment::NEVER } else { self.earliest }
    }

    /// Puts a caller behind the callers who waited before it. This policy lets the key be granted to it. When the queue has
    /// doubled since it was last searched, callers that left are removed. So the queue is at most twice as long as the
    /// number of callers that are there.
    pub fn park(&mut self, rules: Rules, waiter: Waiter<C>, policy: &Arc<Policy>) {
        if self.queue.is_empty() {
            self.judged_by = Some(policy.clone());
        } else if !self.is_judged_by(policy) {
            self.judged_by = None;
        }
        if self.queue.len() >= self.sweep_at {
            self.queue.retain(|waiter| !waiter.caller.is_gone());
            self.sweep_at = (self.queue.len() * 2).max(SWEEP_MIN);
        }
        self.earliest = self.earliest.min(waiter.deadline());
        let since = waiter.since(rules);
        let before = self.queue.iter().rposition(|other| other.since(rules) <= since);
        self.queue.insert(before.map_or(0, |at| at + 1), waiter);
    }

    /// Puts a caller back at the head of the queue, where it stood.
    pub fn put_back(&mut self, waiter: Waiter<C>) {
        self.judged_by = None;
        self.earliest = self.earliest.min(waiter.deadline());
        self.queue.push_front(waiter);
    }

    /// Whether `limit` callers wait that are still there. Removes those that left.
    pub fn is_full(&mut self, limit: usize) -> bool {
        if self.queue.len() >= limit {
            self.queue.retain(|waiter| !waiter.caller.is_gone());
        }
        self.queue.len() >= limit
    }

    /// Takes out the first waiter that fits and may be granted the key (its claim is taken). Those before it that fit
    /// and may not are removed.
    pub fn next(&mut self, rules: Rules, fits: impl Fn(&Acquire) -> bool) -> Option<Waiter<C>> {
        let mut at = 0;
        while at < self.queue.len() {
            if fits(&self.queue[at].acquire) {
                let waiter = self.queue.remove(at)?;
                if rules.a_caller_may_be_granted(&waiter.caller) {
                    return Some(waiter);
                }
            } else {
                at += 1;
            }
        }
        None
    }

    /// Takes out every waiter whose deadline passed.
    pub fn take_overdue(&mut self, now: Moment) -> Vec<Waiter<C>> {
        if self.earliest() > now {
            return Vec::new();
        }
        let (overdue, queue) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition::<VecDeque<_>, _>(|waiter| waiter.deadline() <= now);
        self.queue = queue;
        self.earliest = self.queue.iter().map(Waiter::deadline).min().unwrap_or(Moment::NEVER);
        overdue.into()
    }

    /// Takes out every waiter that is `such`, in their order.
    pub fn take(&mut self, such: impl Fn(&Waiter<C>) -> bool) -> Vec<Waiter<C>> {
        if !self.queue.iter().any(&such) {
            return Vec::new();
        }
        let (taken, queue) =
            std::mem::take(&mut self.queue).into_iter().partition::<VecDeque<_>, _>(such);
        self.queue = queue;
        taken.into()
    }

    /// Takes out every waiter that is not `fit` by this policy, in their order. Where the policy is the same as the last
    /// time, it reads none of them.
    pub fn take_unfit(
        &mut self,
        policy: &Arc<Policy>,
        fit: impl Fn(&Acquire) -> bool,
    ) -> Vec<Waiter<C>> {
        if self.is_judged_by(policy) {
            return Vec::new();
        }
        self.judged_by = Some(policy.clone());
        self.take(|waiter| !fit(&waiter.acquire))
    }

    fn is_judged_by(&self, policy: &Arc<Policy>) -> bool {
        self.judged_by.as_ref() == Some(policy)
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Waiter<C>> {
        std::mem::take(&mut self.queue).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::lease::primitives::{Nonce, Owner};

    struct Present;

    impl Caller for Present {
        fn is_gone(&self) -> bool {
            false
        }

        fn claim(&self) -> bool {
            true
        }

        fn unclaim(&self) {}
    }

    fn waiter() -> Waiter<Present> {
        let acquire = Acquire {
            owner: Owner::new("w").unwrap(),
            ttl_ms: 1_000,
            value: None,
            reclaim: false,
            allow_stale: false,
            wait_until: Some(Moment::NEVER),
            since: Moment::NEVER,
            grant_nonce: Nonce(1),
            mark: None,
            session_ref: None,
            min_hold_ms: 0,
            spec: None,
            place: false,
            permit: false,
            pool: None,
        };
        Waiter {
            caller: Present,
            received: Moment::ZERO,
            acquire: Box::new(acquire),
            home_unreachable: false,
        }
    }

    fn with_permits(permits: u32) -> Arc<Policy> {
        Arc::new(Policy { permits, ..Policy::default() })
    }

    /// How many waiters are looked at when this policy is in force.
    fn looked_at(waiters: &mut Waiters<Present>, policy: &Arc<Policy>) -> usize {
        let looks = Cell::new(0);
        let unfit = waiters.take_unfit(policy, |_| {
            looks.set(looks.get() + 1);
            true
        });
        assert!(unfit.is_empty());
        looks.get()
    }

    #[test]
    fn waiters_are_judged_again_only_where_one_of_them_was_judged_by_another_policy() {
        let (first, second) = (with_permits(1), with_permits(2));
        let mut waiters = Waiters::default();
        for _ in 0..100 {
            assert_eq!(looked_at(&mut waiters, &first), 0, "each was judged before it was parked");
            waiters.park(Rules::default(), waiter(), &first);
        }
        assert_eq!(looked_at(&mut waiters, &with_permits(1)), 0, "an equal policy");
        assert_eq!(looked_at(&mut waiters, &second), 100);
        assert_eq!(looked_at(&mut waiters, &second), 0);
        assert_eq!(looked_at(&mut waiters, &first), 100);

        waiters.park(Rules::default(), waiter(), &second);
        assert_eq!(looked_at(&mut waiters, &first), 101, "the last one was judged by the second");
        waiters.put_back(waiter());
        assert_eq!(
            looked_at(&mut waiters, &first),
            102,
            "the policy may have changed while it was away"
        );
    }
}
