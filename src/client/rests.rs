//! The keys of a member whose tasks failed: each rests for a while.

use std::{collections::HashMap, time::Duration};

use crate::lease::Moment;

/// How long a key rests after its task failed: the first time, and at most.
const RESTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// The keys whose tasks failed.
#[derive(Default)]
pub(super) struct Rests(HashMap<String, (u32, Moment)>);

impl Rests {
    pub fn of(&self, key: &str, now: Moment) -> Duration {
        self.0.get(key).map_or(Duration::ZERO, |(_, until)| until.since(now))
    }

    pub fn failed(&mut self, key: &str, now: Moment) {
        let (failures, until) = self.0.entry(key.to_owned()).or_insert((0, now));
        *until = now + (RESTS[0] * (1 << (*failures).min(10))).min(RESTS[1]);
        *failures += 1;
    }

    pub fn fine(&mut self, key: &str) {
        self.0.remove(key);
    }
}
