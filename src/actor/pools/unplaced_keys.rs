//! The keys of a pool that have no member to go to, as they are counted and listed.

use std::{collections::BTreeMap, fmt};

use crate::lease::{Key, Unplaced};

/// How many of them are listed.
const LISTED: usize = 100;

/// The keys of a pool that have no member to go to.
#[derive(Clone, Debug, Default)]
pub struct UnplacedKeys {
    /// How many there are, by reason.
    pub counts: BTreeMap<Unplaced, usize>,
    /// The first of them, in the order of their names.
    pub listed: Vec<(Key, Unplaced)>,
}

impl UnplacedKeys {
    /// How many there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    pub(super) fn add(&mut self, why: Unplaced, key: &Key) {
        *self.counts.entry(why).or_default() += 1;
        self.listed.push((key.clone(), why));
        if self.listed.len() == 2 * LISTED {
            self.trim();
        }
    }

    pub(super) fn trim(&mut self) {
        self.listed.sort_unstable();
        self.listed.truncate(LISTED);
    }
}

/// Why a member is given no further key of its pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptOut {
    /// What it is that keeps all keys from it.
    pub member: Option<&'static str>,
    /// The keys that nobody holds and that no member is given, by reason.
    pub keys: BTreeMap<Unplaced, usize>,
}

impl fmt::Display for KeptOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(member) = self.member {
            write!(f, "; it {member}")?;
        }
        for (at, (why, count)) in self.keys.iter().enumerate() {
            let before = if at == 0 { "; keys without a member to go to: " } else { ", " };
            write!(f, "{before}{count} ({})", why.as_str())?;
        }
        Ok(())
    }
}
