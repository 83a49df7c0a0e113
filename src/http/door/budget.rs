//! The bytes of all request bodies that the process buffers, with one bound for all callers.
//!
//! Guarantees: a body counts for the bytes that are buffered, from their arrival until the call is answered. The length
//! that its head announces does not count. Up to [`FREE`] bytes of each body are free, so other bodies never keep a
//! heartbeat out. Longer heartbeats and releases have a reserve.
//!
//! Does not guarantee: a share for each caller.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;

use crate::http::answer::Problem;

/// The bytes of each body that are free. A connection's own buffers take as much, and connections have a bound.
pub const FREE: usize = 8 * 1024;
/// The bytes that a buffer grows by at least; a large one grows by a quarter.
const GROWTH: usize = 16 * 1024;
/// The reserve is one part in this many of the budget, on top of it.
const RESERVE: usize = 8;

/// The bytes that bodies may take.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A budget of `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicUsize::new(0) })
    }

    /// The bytes in use now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize, is_vital: bool) -> Result<(), Problem> {
        let most = if is_vital { self.most + self.most / RESERVE } else { self.most };
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= most);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map(drop).map_err(|_| Problem::too_many_bodies(self.most))
    }
}

/// Bytes of a message that count as a body, until this is dropped.
pub struct Charged {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charged {
    /// Counts bytes that are about to be buffered.
    ///
    /// # Errors
    /// When the budget has no room for them.
    pub fn of(budget: &Arc<Budget>, bytes: usize, is_vital: bool) -> Result<Self, Problem> {
        budget.take(bytes, is_vital)?;
        Ok(Self { budget: budget.clone(), bytes })
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The part of a body that has arrived.
pub struct Buffer {
    budget: Arc<Budget>,
    is_vital: bool,
    bytes: Vec<u8>,
    charged: usize,
}

impl Buffer {
    /// An empty buffer. A vital call may also use the reserve.
    pub fn new(budget: Arc<Budget>, is_vital: bool) -> Self {
        Self { budget, is_vital, bytes: Vec::new(), charged: 0 }
    }

    /// The number of bytes that have arrived.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// When the budget has no room for them.
    pub fn add(&mut self, chunk: &[u8]) -> Result<(), Problem> {
        let length = self.bytes.len() + chunk.len();
        if length > self.bytes.capacity() {
            let growth = (self.bytes.len() / 4).max(GROWTH);
            let capacity =
                if length <= FREE { FREE } else { length.max(self.bytes.len() + growth) };
            if capacity > FREE {
                self.budget.take(capacity - self.charged, self.is_vital)?;
                self.charged = capacity;
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// The whole body; it counts until it is dropped.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.charged, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(budget: &Arc<Budget>, is_vital: bool, length: usize) -> Result<Buffer, &'static str> {
        let mut buffer = Buffer::new(budget.clone(), is_vital);
        for _ in 0..length / 1024 {
            buffer.add(&[7; 1024]).map_err(|problem| problem.code)?;
        }
        Ok(buffer)
    }

    #[test]
    fn a_body_counts_for_what_is_kept_of_it_until_it_is_dropped() {
        let budget = Budget::new(1 << 20);
        let small = filled(&budget, false, FREE).unwrap();
        assert_eq!((budget.used(), small.len()), (0, FREE));
        let large = filled(&budget, false, 512 * 1024).unwrap();
        let used = budget.used();
        assert!((512 * 1024..=512 * 1024 * 5 / 4).contains(&used), "{used}");
        let kept = large.freeze();
        let again = kept.clone();
        drop(kept);
        assert_eq!((budget.used(), again.len()), (used, 512 * 1024));
        drop(again);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_message_counts_until_it_is_dropped() {
        let budget = Budget::new(1 << 20);
        let counted = Charged::of(&budget, 1 << 20, false).unwrap();
        assert_eq!(budget.used(), 1 << 20);
        let refused = Charged::of(&budget, 1, false).map(drop).map_err(|problem| problem.code);
        assert_eq!(refused, Err("too-many-bodies"));
        drop(counted);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn others_do_not_cost_a_heartbeat() {
        let budget = Budget::new(1 << 20);
        let mut kept = Vec::new();
        let refused = loop {
            match filled(&budget, false, 100 * 1024) {
                Ok(buffer) => kept.push(buffer),
                Err(code) => break code,
            }
        };
        assert_eq!(refused, "too-many-bodies");
        assert!(budget.used() <= 1 << 20 && kept.len() >= 7, "{}", kept.len());
        assert!(filled(&budget, false, FREE).is_ok(), "it is short");
        assert!(filled(&budget, true, 100 * 1024).is_ok(), "there is a reserve");
        kept.pop();
        assert!(filled(&budget, false, 100 * 1024).is_ok());
    }
}
