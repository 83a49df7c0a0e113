//! Moves a lease through time, so that a model checker recognises equal states as equal.

use std::{sync::Arc, time::Duration};

use super::{
    Acquire, Call, Lease, Membership, Moment, NodeRecord, Record, Request,
    waiters::{Waiter, Waiters},
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
        aged(&mut self.floor);
        aged(&mut self.opens_at);
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
}

impl<C> Lease<C> {
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
        let counts = self.span_ms() > 0;
        let written = if counts { (self.written - by).max(oldest) } else { oldest };
        if written != self.written {
            Arc::make_mut(self).written = written;
        }
    }
}

impl NodeRecord {
    /// The same for a node's record; D − U stays. D lies before U only where a test broke a rule.
    pub fn age(&mut self, by: Duration, oldest: Moment) {
        let (span, before) = (self.until.since(self.written), self.written.since(self.until));
        if self.until != Moment::ZERO {
            self.written = (self.written - by).max(oldest);
            self.until = self.written + span - before;
        }
    }
}

impl Membership {
    /// The same for a membership. Where only the fact matters that a moment is long past, the moment becomes `recent`,
    /// or is cleared if it is `recent` already. When a record was first read matters only for records marked `unseen`,
    /// and next to reads that take time. In all other cases `heard` caps that moment.
    pub fn age(&mut self, by: Duration, oldest: Moment, recent: Moment, heard: Moment) {
        let aged = |moment: &mut Moment, oldest: Moment| {
            if *moment != Moment::ZERO && *moment != Moment::NEVER {
                *moment = (*moment - by).max(oldest);
            }
        };
        self.record.age(by, oldest);
        aged(&mut self.unbroken_since, recent);
        aged(&mut self.resumed, recent);
        if self.resumed == recent {
            self.resumed = Moment::ZERO;
        }
        for peer in self.peers.iter_mut() {
            peer.record.age(by, oldest);
            aged(&mut peer.pair.0, oldest);
            aged(&mut peer.pair.1, oldest);
            if !peer.record.unseen {
                aged(&mut peer.since, recent);
                peer.since = peer.since.min(heard);
            }
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
