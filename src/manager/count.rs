//! Counts the keys of the store by their states, and finds those whose fences failed.
//!
//! Most stores keep count. Where the store does not, this reads every record, in the background, and only when somebody
//! looks. While it is looked at, it rests twenty times as long as the last read took, so it takes a twentieth of a core at
//! most. Where reads are charged it rests for ten minutes at least.
//!
//! Guarantees: at most one read is in progress. Its memory is bounded by [`LISTED`].
//!
//! Does not guarantee: that the counts are those of one moment.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    actor::Coordinator,
    lease::{Condition, Key, Moment, Record},
    store::{Counted, Found, Range, StoreError},
};

/// How many keys are read at a time.
const PAGE: usize = 1000;
/// How many keys with a failed fence are named at most. The others are counted.
const LISTED: usize = 1000;
/// The shortest rest between two reads, and the shortest where reads are charged.
const REST: Duration = Duration::from_secs(1);
const CHARGED_REST: Duration = Duration::from_secs(600);
/// How many times as long as a read took the rest after it is.
const REST_TIMES: u32 = 20;
/// What a read found this long ago is told while another one is in progress.
const FRESH: Duration = Duration::from_secs(15);
/// How long whoever looks waits for a read that is in progress, if what the read before found is older. After that it
/// gets that.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a read of all records found, or what the store has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedKeys {
    /// When it ended.
    pub at: Moment,
    /// How long it took.
    pub took: Duration,
    pub census: Counted,
}

impl CountedKeys {
    fn count(&mut self, key: &Key, found: &Found) {
        if key.is_internal() {
            return;
        }
        let record = found.record.as_deref().ok();
        let condition = record.map_or(Condition::UNREADABLE, Record::condition);
        *self.census.states.of(condition.state) += 1;
        if !condition.fence_failed {
            return;
        }
        if self.census.failed.len() < LISTED {
            self.census.failed.push((key.clone(), record.and_then(Record::ended_at_ms)));
        } else {
            self.census.more_failed += 1;
        }
    }
}

/// The counts of a coordinator.
#[derive(Default)]
pub(super) struct KeyCounter {
    state: Mutex<State>,
    /// A read has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    last: Option<Arc<CountedKeys>>,
    /// When the last read began that failed. The next one rests as long after it.
    failed: Option<Moment>,
    reading: bool,
}

impl State {
    /// Begins a read if it is time for one. Returns whether it began.
    fn begin(&mut self, now: Moment, charged: bool) -> bool {
        let least = if charged { CHARGED_REST } else { REST };
        let rested = self
            .last
            .as_ref()
            .is_none_or(|last| now.since(last.at) >= (last.took * REST_TIMES).max(least));
        let begins =
            !self.reading && rested && self.failed.is_none_or(|failed| now.since(failed) >= REST);
        self.reading |= begins;
        begins
    }
}

impl State {
    fn is_fresh(&self, now: Moment) -> bool {
        self.last.as_ref().is_some_and(|last| now.since(last.at) < FRESH)
    }
}

impl KeyCounter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read in progress. Its end is told, however it comes.
struct Reading {
    of: Arc<KeyCounter>,
    began: Moment,
    found: Option<CountedKeys>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let found = self.found.take().map(Arc::new);
        let mut state = self.of.state();
        state.failed = if found.is_some() { None } else { Some(self.began) };
        state.last = found.or(state.last.take());
        state.reading = false;
        drop(state);
        self.of.ended.notify_waiters();
    }
}

/// How many keys are in each state, and which have fences that failed, as of a moment ago. `None` while the store cannot
/// be read, or was not read in time.
pub(super) async fn counted(
    counter: &Arc<KeyCounter>,
    coordinator: &Arc<Coordinator>,
) -> Option<Arc<CountedKeys>> {
    let now = coordinator.clock.now();
    if let Some(census) = coordinator.store.census(LISTED) {
        return Some(Arc::new(CountedKeys { at: now, took: Duration::ZERO, census }));
    }
    let ended = counter.ended.notified();
    let (begins, waits) = {
        let mut state = counter.state();
        let begins = state.begin(now, coordinator.store.charges_scans());
        (begins, state.reading && !state.is_fresh(now))
    };
    if begins {
        let reading = Reading { of: counter.clone(), began: now, found: None };
        tokio::spawn(read(Arc::downgrade(coordinator), reading));
    }
    if waits {
        let _ = tokio::time::timeout(PATIENCE, ended).await;
    }
    counter.state().last.clone()
}

/// Reads every record. It ends early if the coordinator does.
async fn read(coordinator: Weak<Coordinator>, mut reading: Reading) {
    let (mut found, mut after) = (CountedKeys::default(), None);
    loop {
        let Some(coordinator) = coordinator.upgrade() else { return };
        let page = coordinator.store.scan(Range { prefix: String::new(), after, limit: PAGE });
        let page: Result<_, StoreError> = page.await;
        let page = match page {
            Ok(page) => page,
            Err(error) => return tracing::debug!(%error, "cannot count the keys of the store"),
        };
        page.iter().for_each(|(key, record)| found.count(key, record));
        let now = coordinator.clock.now();
        if page.len() < PAGE {
            (found.at, found.took) = (now, now.since(reading.began));
            reading.found = Some(found);
            return;
        }
        after = page.last().map(|(key, _)| key.as_str().to_owned());
        drop(coordinator);
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{
        ChangeKind, CodecError, Fence, FenceWhen, FencesAndDelay, KeyState, OnFenceFailure, Owner,
        Revision, Token,
    };
    use crate::store::StateCounts;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn found(state: KeyState, failed: bool) -> Found {
        let fence = Fence {
            token: Token(1),
            owner: Owner::new("w").expect("an owner"),
            reason: ChangeKind::Expired,
            session: None,
            when: FenceWhen::BeforeGrant,
            on_failure: OnFenceFailure::Block,
            timeout_ms: 1,
            pending: vec!["power".into()].into_boxed_slice(),
            failed: vec!["power".into(); usize::from(failed)].into_boxed_slice(),
        };
        let left = FencesAndDelay { cooling_ms: 0, fences: vec![fence] };
        let fences_and_delay = (state == KeyState::Fencing).then(|| Box::new(left));
        let record = Record { state, fences_and_delay, ..Record::absent() };
        Found { revision: Revision(1), record: Ok(Arc::new(record)) }
    }

    #[test]
    fn keys_are_counted_by_state_and_those_of_sessions_are_not() {
        let mut counted = CountedKeys::default();
        let key = |name: &str| Key::new(name).expect("a key");
        for (name, state, failed) in [
            ("a", KeyState::Held, false),
            ("b", KeyState::Free, false),
            ("c", KeyState::Fencing, true),
            ("d", KeyState::Fencing, false),
            ("e", KeyState::Cooling, false),
            ("f", KeyState::Offered, false),
        ] {
            counted.count(&key(name), &found(state, failed));
        }
        let unreadable = Found { revision: Revision(1), record: Err(CodecError::Version(99)) };
        counted.count(&key("g"), &unreadable);
        counted.count(&Key::of_notifier("plugin"), &found(KeyState::Held, false));
        let counts = StateCounts { held: 2, free: 1, offered: 1, cooling: 1, fencing: 2 };
        assert_eq!(counted.census.states, counts);
        assert_eq!(counted.census.failed, [(key("c"), None)]);
    }

    #[test]
    fn a_list_of_failed_fences_has_an_end_and_the_others_are_counted() {
        let mut counted = CountedKeys::default();
        for number in 0..LISTED + 7 {
            let key = Key::new(&format!("k/{number}")).expect("a key");
            counted.count(&key, &found(KeyState::Fencing, true));
        }
        assert_eq!((counted.census.failed.len(), counted.census.more_failed), (LISTED, 7));
    }

    #[test]
    fn it_rests_longer_after_a_long_read_and_where_reads_are_charged() {
        let after = |took: u64| {
            let took = Duration::from_millis(took);
            let last = CountedKeys { at: at(1000), took, ..CountedKeys::default() };
            State { last: Some(Arc::new(last)), ..State::default() }
        };
        assert!(State::default().begin(at(0), true), "nothing is known");
        assert!(!after(10).begin(at(1000), false));
        assert!(after(10).begin(at(1001), false));
        assert!(!after(500).begin(at(1009), false));
        assert!(after(500).begin(at(1010), false));
        assert!(!after(10).begin(at(1599), true));
        assert!(after(10).begin(at(1600), true));
    }

    #[test]
    fn one_read_is_in_progress_and_one_that_failed_is_repeated_later() {
        let counter = Arc::<KeyCounter>::default();
        let begin = |second| counter.state().begin(at(second), false);
        assert!(begin(5));
        assert!(!begin(5), "one is in progress");
        drop(Reading { of: counter.clone(), began: at(5), found: None });
        assert!(!begin(5) && begin(6));
        let found = Some(CountedKeys { at: at(7), ..CountedKeys::default() });
        drop(Reading { of: counter.clone(), began: at(6), found });
        assert_eq!(counter.state().last.as_ref().map(|last| last.at), Some(at(7)));
        assert!(!begin(7) && begin(8));
    }
}
