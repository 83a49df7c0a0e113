//! The loads that a member reports with its heartbeats.
//!
//! Guarantees: a load follows what is reported smoothly, with a time constant of [`SMOOTHING`]. What is stored changes only
//! when it has become different enough, and not more often than every [`STORE_PAUSE`].

use std::{collections::BTreeMap, time::Duration};

use super::load::Load;
use crate::lease::primitives::{Key, Moment};

/// After this time, a load that changed has come 63 % of the way to the new one.
pub const SMOOTHING: Duration = Duration::from_secs(60);
/// The shortest time between two writes of a member's loads.
pub const STORE_PAUSE: Duration = Duration::from_secs(10);
/// How many bytes the loads of a member may take up in its session's record.
pub const MAX_REPORT_BYTES: usize = 14 * 1024;
/// The highest load of a key.
pub const MAX_LOAD: f64 = 1e9;
/// How many parts of a unit a [`Load`] counts.
const PARTS: f64 = 1e6;

/// A load that a member reports. It is from 0 to [`MAX_LOAD`].
#[must_use]
pub fn load_of(reported: f64) -> Load {
    (reported.clamp(0.0, MAX_LOAD) * PARTS).round() as Load
}

/// A load in the unit that members report.
#[must_use]
pub fn in_units(load: u128) -> f64 {
    load as f64 / PARTS
}

/// How many bytes the load of a key takes up: the key in quotes, a colon, sixteen digits, and a comma.
#[must_use]
pub fn bytes_of(key: &str) -> usize {
    key.escape_default().count() + 20
}

/// The load of each key, as it is stored.
pub type Loads = BTreeMap<Box<str>, Load>;

/// What a heartbeat reports.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The load of each key; `None` for a load that is no longer known.
    pub loads: Vec<(Key, Option<Load>)>,
    /// The highest load that the member accepts: `Some(None)` if there is none from now on, and `None` if it is as before.
    pub limit: Option<Option<Load>>,
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    load: Load,
    at: Moment,
}

/// What a member reported.
#[derive(Debug, Default)]
pub struct Reports {
    loads: BTreeMap<Key, Smoothed>,
    limit: Option<Load>,
    stored: Loads,
    stored_limit: Option<Load>,
    stored_at: Option<Moment>,
}

impl Reports {
    /// What the session's record says: another node, or an earlier process of this one, was told.
    #[must_use]
    pub fn of_stored(loads: &Loads, limit: Option<Load>, now: Moment) -> Self {
        let keys = loads.iter().filter_map(|(key, load)| Some((Key::new(key).ok()?, *load)));
        Self {
            loads: keys.map(|(key, load)| (key, Smoothed { load, at: now })).collect(),
            limit,
            stored: loads.clone(),
            stored_limit: limit,
            stored_at: None,
        }
    }

    /// Notes what a heartbeat reports. `known` is the load of a key that another member reported before.
    pub fn report(
        &mut self,
        loads: impl IntoIterator<Item = (Key, Option<Load>)>,
        limit: Option<Option<Load>>,
        known: impl Fn(&Key) -> Option<Load>,
        now: Moment,
    ) {
        self.limit = limit.unwrap_or(self.limit);
        for (key, load) in loads {
            let Some(load) = load else {
                self.loads.remove(&key);
                continue;
            };
            let before = self.loads.get(&key).copied();
            let before =
                before.or_else(|| Some(Smoothed { load: known(&key)?, at: now - STORE_PAUSE }));
            let load = before.map_or(load, |before| smooth(before, load, now));
            self.loads.insert(key, Smoothed { load, at: now });
        }
    }

    /// Forgets the keys that the member does not have.
    pub fn keep_only(&mut self, has: impl Fn(&Key) -> bool) {
        self.loads.retain(|key, _| has(key));
    }

    /// How many bytes the loads need in a record after a report of these.
    pub fn bytes_with<'a>(&self, report: impl Iterator<Item = &'a (Key, Option<Load>)>) -> usize {
        let mut bytes: usize = self.loads.keys().map(|key| bytes_of(key.as_str())).sum();
        for (key, load) in report {
            match (self.loads.contains_key(key), load) {
                (true, None) => bytes -= bytes_of(key.as_str()),
                (false, Some(_)) => bytes += bytes_of(key.as_str()),
                _ => {}
            }
        }
        bytes
    }

    /// What must be stored now: if it differs from what is stored by more than this part of it.
    pub fn due(&self, part: f64, now: Moment) -> Option<(Loads, Option<Load>)> {
        if self.stored_at.is_some_and(|at| now.since(at) < STORE_PAUSE) {
            return None;
        }
        let is_stored = |key: &Key| self.stored.contains_key(key.as_str());
        let is_same = self.loads.len() == self.stored.len()
            && self.limit == self.stored_limit
            && self.loads.keys().all(is_stored);
        let differs = |(key, smoothed): (&Key, &Smoothed)| {
            let stored = self.stored.get(key.as_str()).copied().unwrap_or(0);
            u128::from(stored.abs_diff(smoothed.load))
        };
        let difference: u128 = self.loads.iter().map(differs).sum();
        let total: u128 = self.stored.values().copied().map(u128::from).sum();
        if is_same && in_units(difference) <= in_units(total) * part {
            return None;
        }
        let loads = self.loads.iter().map(|(key, smoothed)| (key.as_str().into(), smoothed.load));
        Some((loads.collect(), self.limit))
    }

    /// These loads are stored now.
    pub fn stored(&mut self, loads: Loads, limit: Option<Load>, now: Moment) {
        (self.stored, self.stored_limit, self.stored_at) = (loads, limit, Some(now));
    }
}

/// The smoothed load after a report.
fn smooth(before: Smoothed, reported: Load, now: Moment) -> Load {
    let past = now.since(before.at).as_secs_f64() / SMOOTHING.as_secs_f64();
    let (old, new) = (before.load as f64, reported as f64);
    (old + (new - old) * -(-past).exp_m1()).round().max(0.0) as Load
}
