//! Which changes were written for traced calls, so that their log lines have the ids of the traces.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{lease::Key, telemetry::trace::Trace};

/// The most changes that are known. A change is forgotten when the store's feed brings it; only one whose write failed
/// stays longer.
const MOST: usize = 1024;

/// Changes that were sent to the store and that its feed has not brought.
pub struct TracedChanges<T = Trace> {
    /// Each with the span for which it was written.
    known: Mutex<VecDeque<(Key, u64, T)>>,
    /// How many are known. Most nodes know none, and take no lock.
    count: AtomicUsize,
}

impl<T> Default for TracedChanges<T> {
    fn default() -> Self {
        Self { known: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl<T> TracedChanges<T> {
    /// Whether no change is known.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The change with this number was sent to the store: for a traced call, or for none.
    pub fn note(&self, key: &Key, seq: u64, trace: Option<T>) {
        // The write of an earlier change with this number failed.
        self.take(key, seq);
        let Some(trace) = trace else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.pop_front();
        }
        known.push_back((key.clone(), seq, trace));
        self.count.store(known.len(), Ordering::Release);
    }

    /// The span for which a change was written.
    pub fn take(&self, key: &Key, seq: u64) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(of, number, _)| *number == seq && of == key)?;
        let (_, _, trace) = known.remove(at)?;
        self.count.store(known.len(), Ordering::Release);
        Some(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::new(&number.to_string()).expect("a key")
    }

    #[test]
    fn a_change_is_taken_once_and_a_later_write_of_its_number_takes_its_place() {
        let changes = TracedChanges::default();
        changes.note(&key(1), 7, Some('a'));
        changes.note(&key(2), 7, Some('b'));
        assert_eq!((changes.take(&key(1), 8), changes.take(&key(3), 7)), (None, None));
        assert_eq!(changes.take(&key(1), 7), Some('a'));
        assert_eq!(changes.take(&key(1), 7), None);
        // The write failed. The next one is for another call, or for none.
        changes.note(&key(2), 7, Some('c'));
        assert_eq!(changes.take(&key(2), 7), Some('c'));
        changes.note(&key(2), 7, Some('d'));
        changes.note(&key(2), 7, None);
        assert!(changes.is_empty());
    }

    #[test]
    fn the_oldest_is_forgotten_where_there_are_too_many() {
        let changes = TracedChanges::default();
        (0..=MOST).for_each(|number| changes.note(&key(number), 1, Some(number)));
        assert_eq!(changes.take(&key(0), 1), None);
        assert_eq!(changes.take(&key(1), 1), Some(1));
        assert_eq!(changes.take(&key(MOST), 1), Some(MOST));
    }
}
