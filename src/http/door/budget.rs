//! The bytes of all request bodies and messages of streams that the process buffers, with one bound for all callers.
//!
//! Guarantees: a body counts for the bytes that are buffered, from their arrival until the call is answered. The length
//! that its head announces does not count. Up to [`FREE`] bytes of each body are free, so other bodies never keep a
//! heartbeat out. Longer heartbeats and releases have a reserve. One payer, which is a principal or an address, has at
//! most half of the budget and half of the reserve, or [`LEAST_SHARE`] where that is more.
//!
//! Does not guarantee: a share for each of many payers.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

use crate::{
    clock::{DashMap, dash_map},
    http::{answer::Problem, caller::Payer},
};

/// The bytes of each body that are free. A connection's own buffers take as much, and connections have a bound.
pub const FREE: usize = 8 * 1024;
/// The bytes that a buffer grows by at least; a large one grows by a quarter.
const GROWTH: usize = 16 * 1024;
/// The reserve is one part in this many of the budget, on top of it.
const RESERVE: usize = 8;
/// A payer has one part in this many of the budget and of the reserve.
const SHARE: usize = 2;
/// The least share of a payer: the buffer of the largest body fits into it. It is also the smallest budget.
const LEAST_SHARE: usize = 2 * 1024 * 1024;

/// The bytes that bodies may take.
#[derive(Debug)]
pub struct Budget {
    ordinary: Pot,
    reserve: Pot,
    /// What each payer uses of both. A payer that uses nothing has no entry.
    shares: DashMap<Payer, Used>,
}

/// A part of the budget.
#[derive(Debug)]
struct Pot {
    most: usize,
    used: AtomicUsize,
    /// The most that one payer may have of it.
    share: usize,
}

/// The used bytes of the budget and of the reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    ordinary: usize,
    reserve: usize,
}

/// Why there is no room.
enum Full {
    /// All of it is used.
    All,
    /// The payer uses its share.
    Share,
}

impl Pot {
    fn new(most: usize, share: usize) -> Self {
        Self { most, used: AtomicUsize::new(0), share }
    }

    fn take(&self, own: &mut usize, bytes: usize) -> Result<(), Full> {
        if own.saturating_add(bytes) > self.share {
            return Err(Full::Share);
        }
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map(|_| *own += bytes).map_err(|_| Full::All)
    }
}

impl Budget {
    /// A budget of `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let share = (most / SHARE).max(LEAST_SHARE).min(most);
        let reserve = most / RESERVE;
        Arc::new(Self {
            ordinary: Pot::new(most, share),
            reserve: Pot::new(reserve, reserve / SHARE),
            shares: dash_map(),
        })
    }

    /// The bytes in use now.
    pub fn used(&self) -> usize {
        let [ordinary, reserve] = [&self.ordinary, &self.reserve];
        ordinary.used.load(Ordering::Relaxed) + reserve.used.load(Ordering::Relaxed)
    }

    /// Takes bytes for a payer. A vital call uses the reserve where the budget has no room.
    fn take(&self, payer: &Payer, bytes: usize, is_vital: bool) -> Result<Used, Problem> {
        let mut own = self.shares.entry(payer.clone()).or_default();
        let ordinary = self.ordinary.take(&mut own.ordinary, bytes);
        let taken = match ordinary {
            Ok(()) => Ok(Used { ordinary: bytes, reserve: 0 }),
            Err(_) if is_vital && self.reserve.take(&mut own.reserve, bytes).is_ok() => {
                Ok(Used { ordinary: 0, reserve: bytes })
            }
            Err(Full::All) => Err(Problem::too_many_bodies(self.ordinary.most)),
            Err(Full::Share) => {
                Err(Problem::too_many_bodies_of(&payer.to_string(), self.ordinary.share))
            }
        };
        let is_idle = *own == Used::default();
        drop(own);
        if is_idle {
            self.forget(payer);
        }
        taken
    }

    fn give_back(&self, payer: &Payer, used: Used) {
        if used == Used::default() {
            return;
        }
        self.ordinary.used.fetch_sub(used.ordinary, Ordering::Relaxed);
        self.reserve.used.fetch_sub(used.reserve, Ordering::Relaxed);
        if let Some(mut own) = self.shares.get_mut(payer) {
            own.ordinary = own.ordinary.saturating_sub(used.ordinary);
            own.reserve = own.reserve.saturating_sub(used.reserve);
        }
        self.forget(payer);
    }

    /// Removes the entry of a payer that uses nothing.
    fn forget(&self, payer: &Payer) {
        self.shares.remove_if(payer, |_, own| *own == Used::default());
    }
}

/// Bytes of one payer that count, until this is dropped.
pub struct Charged {
    budget: Arc<Budget>,
    payer: Payer,
    used: Used,
}

impl Charged {
    /// Counts nothing yet.
    pub fn new(budget: Arc<Budget>, payer: Payer) -> Self {
        Self { budget, payer, used: Used::default() }
    }

    /// How many bytes are counted.
    pub fn bytes(&self) -> usize {
        self.used.ordinary + self.used.reserve
    }

    /// Counts bytes that are about to be buffered. A vital call may also use the reserve.
    ///
    /// # Errors
    /// When the budget, or the payer's share of it, has no room for them.
    pub fn add(&mut self, bytes: usize, is_vital: bool) -> Result<(), Problem> {
        let taken = self.budget.take(&self.payer, bytes, is_vital)?;
        self.used.ordinary += taken.ordinary;
        self.used.reserve += taken.reserve;
        Ok(())
    }

    /// Moves all that is counted to another one, which counts until it is dropped.
    pub fn split(&mut self) -> Self {
        let used = mem::take(&mut self.used);
        Self { budget: self.budget.clone(), payer: self.payer.clone(), used }
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.budget.give_back(&self.payer, self.used);
    }
}

/// The part of a body that has arrived.
pub struct Buffer {
    charged: Charged,
    is_vital: bool,
    bytes: Vec<u8>,
}

impl Buffer {
    /// An empty buffer. A vital call may also use the reserve.
    pub fn new(budget: Arc<Budget>, payer: Payer, is_vital: bool) -> Self {
        Self { charged: Charged::new(budget, payer), is_vital, bytes: Vec::new() }
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
                self.charged.add(capacity - self.charged.bytes(), self.is_vital)?;
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

#[cfg(test)]
mod tests;
