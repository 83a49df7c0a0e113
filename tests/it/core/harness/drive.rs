//! What store, clock and process do to the key.

use tenure::lease::{Inherited, Input, Lease, Request, Revision, Settled, WriteEffect};

use super::{Bench, Who, broken, full, ms};

impl Bench {
    /// The write in flight becomes durable, and the core hears of it. A conflict when the record is
    /// not what the write expects.
    #[track_caller]
    pub fn commit(&mut self) {
        let write = self.flight.take().expect("a write is in flight");
        let settled = match self.land(&write) {
            Some(revision) => {
                let in_time = self.oracle.ended_in_time(&write, self.now);
                self.judge(in_time);
                Settled::Committed(revision)
            }
            None => Settled::Conflict(self.cell.load()),
        };
        self.input(Input::Settled(settled));
    }

    fn land(&mut self, write: &WriteEffect) -> Option<Revision> {
        let revision = self.cell.compare_and_set(write)?;
        let judged = self.oracle.committed(write, &self.cell);
        self.judge(judged);
        let entries = &self.cell.history[self.cell.history.len() - write.changes.len()..];
        if !self.faults.publishes_early {
            self.published.extend(entries.iter().cloned());
        }
        if self.faults.deletes_free_keys && write.record.tenure.is_none() {
            self.cell.forget_everything();
        }
        Some(revision)
    }

    /// Commits until nothing is in flight.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            if self.flight.is_none() {
                return;
            }
            self.commit();
        }
        panic!("the core never stops writing");
    }

    /// Sends a request and commits whatever comes of it.
    pub fn done(&mut self, request: impl Into<Request>) -> Who {
        let who = self.ask(request);
        self.settle();
        who
    }

    /// The store does not take the write, and never will.
    pub fn refuse(&mut self) {
        self.flight.take().expect("a write is in flight");
        self.input(Input::Settled(Settled::Refused(full())));
    }

    /// The reply to the write is lost; whether it was written is not known.
    pub fn lose_reply(&mut self, written: bool) {
        let write = self.flight.take().expect("a write is in flight");
        if written {
            self.land(&write);
        } else {
            self.strays.push_back(write);
        }
        self.input(Input::Settled(Settled::Unknown(broken())));
    }

    /// A copy that everybody had given up lands after all.
    pub fn stray_lands(&mut self) {
        if let Some(write) = self.strays.pop_front() {
            self.land(&write);
        }
    }

    /// The oldest read is answered.
    pub fn read_back(&mut self) {
        let read_for = self.reads.pop_front().expect("a read is under way");
        let loaded = self.cell.load();
        self.input(Input::Loaded(read_for, Ok(loaded)));
    }

    pub fn read_fails(&mut self) {
        let read_for = self.reads.pop_front().expect("a read is under way");
        self.input(Input::Loaded(read_for, Err(broken())));
    }

    /// Time passes, and no timer fires.
    pub fn pass(&mut self, span_ms: u64) {
        self.now = self.now + ms(span_ms);
    }

    /// The timer fires if it is due.
    pub fn wake(&mut self) {
        for _ in 0..5 {
            if self.lease.next_wake() > self.now {
                return;
            }
            self.input(Input::Tick);
        }
        self.judge(Err(format!("still awake since {:?}", self.lease.next_wake())));
    }

    /// Time passes as it does in a healthy process: timers fire on time, writes are committed.
    pub fn run(&mut self, span_ms: u64) {
        let end = self.now + ms(span_ms);
        for _ in 0..10_000 {
            while !self.reads.is_empty() {
                self.read_back();
            }
            self.settle();
            let wake = self.lease.next_wake().max(self.now);
            if wake > end {
                break;
            }
            self.now = wake;
            self.wake();
        }
        self.now = end;
        assert!(self.flight.is_none(), "no end of writes");
    }

    /// The process is killed, and another one takes the store's lock after `away_ms`.
    pub fn restart(&mut self, written: bool, away_ms: u64) {
        if let Some(write) = self.flight.take()
            && written
        {
            self.land(&write);
        }
        self.strays.clear();
        self.fences.clear();
        self.entry = None;
        self.pass(away_ms);
        self.recover(Inherited::FromProcess(self.now));
    }

    /// The key's actor dies and is rebuilt at once; its write in flight goes on without it.
    pub fn rebuild(&mut self) {
        self.strays.extend(self.flight.take());
        self.recover(Inherited::FromActor(self.now));
    }

    fn recover(&mut self, inherited: Inherited) {
        self.reads.clear();
        self.waiting.clear();
        let (lease, effects) = self.with_env(|_, env, there| Lease::recover(there, inherited, env));
        self.lease = lease;
        self.shown = None;
        self.perform(effects);
    }
}
