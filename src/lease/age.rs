//! Moving a lease through time, so that a model checker sees equal states as equal.

use std::time::Duration;

use super::{
    Acquire, Call, Lease, Moment, Request,
    waiters::{Waiter, Waiters},
};

impl<C> Lease<C> {
    /// The lease as it would be if everything had happened `by` earlier. What lies before `oldest`
    /// then is moved to it: how long ago no longer matters.
    pub fn age(&mut self, by: Duration, oldest: Moment) {
        let aged = |moment: &mut Moment| {
            if *moment != Moment::ZERO && *moment != Moment::NEVER {
                *moment = (*moment - by).max(oldest);
            }
        };
        aged(&mut self.promised);
        aged(&mut self.floor);
        aged(&mut self.offered_until);
        let Some(busy) = &mut self.busy else { return };
        aged(&mut busy.retry_at);
        busy.waiters.age(aged);
        for call in &mut busy.deferred {
            call.age(aged);
        }
        if let Some(flight) = &mut busy.flight {
            flight.due.iter_mut().for_each(aged);
            flight.cause.iter_mut().for_each(|call| call.age(aged));
            flight.grantee.iter_mut().for_each(|waiter| waiter.age(aged));
        }
    }
}

impl Acquire {
    fn age(&mut self, aged: impl Fn(&mut Moment)) {
        self.wait_until.iter_mut().for_each(aged);
    }
}

impl<C> Call<C> {
    fn age(&mut self, aged: impl Fn(&mut Moment)) {
        aged(&mut self.received);
        if let Request::Acquire(acquire) = &mut self.request {
            acquire.age(aged);
        }
    }
}

impl<C> Waiter<C> {
    fn age(&mut self, aged: impl Fn(&mut Moment)) {
        aged(&mut self.received);
        self.acquire.age(aged);
    }
}

impl<C> Waiters<C> {
    fn age(&mut self, aged: impl Fn(&mut Moment)) {
        aged(&mut self.earliest);
        self.queue.iter_mut().for_each(|waiter| waiter.age(&aged));
    }
}
