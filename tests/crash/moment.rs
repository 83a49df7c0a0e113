//! When a server is killed.

use std::time::Duration;

use crate::{Chance, harness::ms};

/// What a store asks of its disk.
const WHAT: [&str; 7] = ["any", "write", "sync", "create", "rename", "remove", "names"];

/// One server's end.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The step of the store's work with its disk at which the process kills itself.
    pub step: Option<String>,
    /// Otherwise, and when it never comes to that step: after so long.
    pub at_the_latest: Duration,
}

impl Moment {
    /// The moment of a cycle. Now and then it is long enough for leases of before to run out.
    pub fn of(cycle: u64, chance: &mut Chance) -> Self {
        if cycle % 12 == 11 {
            return Self { step: None, at_the_latest: ms(650) };
        }
        if chance.below(4) == 0 {
            return Self { step: None, at_the_latest: ms(20 + chance.below(200)) };
        }
        // Half of them at a place that every life comes to, and those early and late.
        let what = if chance.below(2) == 0 { 0 } else { chance.below(WHAT.len() as u64) as usize };
        let most = match WHAT[what] {
            "any" | "write" | "sync" => [12, 60, 300][chance.below(3) as usize],
            "names" => 1,
            _ => 3,
        };
        let when = ["before", "torn", "after"][chance.below(3) as usize];
        let step = format!("{}:{}:{when}", WHAT[what], 1 + chance.below(most));
        Self { step: Some(step), at_the_latest: ms(250) }
    }
}
