//! Moves a lease through time, so that a model checker recognises equal states as equal.

use std::{sync::Arc, time::Duration};

use super::{
    lease::Lease,
    waiters::{Waiter, Waiters},
};
use crate::lease::{
    message::{Acquire, Call, Request},
    primitives::Moment,
    records::Record,
};

impl<C> Lease<C> {
    /// Changes the lease as if everything had happened `by` earlier. Moments that would then lie before `oldest` become
    /// `oldest`: how long ago they were no longer matters.
    pub fn age(&mut self, by: Duration, oldest: Moment) {
        let aged = |moment: &mut Moment| {
            if *moment != Moment::ZERO && *moment != Moment::NEVER {
                *moment = (*moment - by).max(oldest);
            }
        };
        aged(&mut self.promised);
        if let Some(cell) = &self.cell {
            cell.change(aged);
        }
        aged(&mut self.floor);
        aged(&mut self.opens_at);
        aged(&mut self.shut_before);
        let Some(busy) = &mut self.busy else { return };
        aged(&mut busy.retry_at);
        aged(&mut busy.looked);
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

    /// The records that the lease knows: the settled one and the one in flight.
    pub fn for_records(&mut self, mut change: impl FnMut(&mut Arc<Record>)) {
        change(&mut self.record);
        if let Some(flight) = self.busy.as_mut().and_then(|busy| busy.flight.as_mut()) {
            change(&mut flight.write.record);
        }
    }
}

impl Record {
    /// The same for a record, in a model where all clocks show the same time.
    pub fn age(self: &mut Arc<Self>, by: Duration, oldest: Moment) {
        let counts = self.span_ms() > 0 || self.shut_ms() > 0;
        let written = if counts { (self.written - by).max(oldest) } else { oldest };
        if written != self.written {
            Arc::make_mut(self).written = written;
        }
    }
}

impl Acquire {
    fn age(&mut self, aged: impl Fn(&mut Moment)) {
        let since = Some(&mut self.since).filter(|since| **since != Moment::NEVER);
        self.wait_until.iter_mut().chain(since).for_each(aged);
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
