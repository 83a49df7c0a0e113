//! When a server is killed.

use std::time::Duration;

use tenure::clock::Chance;

use crate::support::{dice::Dice as _, harness::ms};

/// What a store asks of its disk.
const WHAT: [&str; 7] = ["any", "write", "sync", "create", "rename", "remove", "names"];

/// One server's end. What happens before it is counted and not timed, so that a slow machine sees as much of it.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The step of the store's work with its disk at which the process kills itself.
    pub step: Option<String>,
    /// Otherwise, and when it never comes to that step: after so many answers.
    pub answers: u64,
    /// But not before so long.
    pub at_the_earliest: Duration,
}

impl Moment {
    /// The moment of a cycle. Now and then it is long enough for leases of before to run out.
    pub fn of(cycle: u64, chance: &mut Chance) -> Self {
        if cycle % 12 == 11 {
            return Self { step: None, answers: 100, at_the_earliest: ms(650) };
        }
        if chance.below(4) == 0 {
            let answers = chance.below(100);
            return Self { step: None, answers, at_the_earliest: ms(chance.below(20)) };
        }
        // Half of them at a place that every life comes to, and those early and late.
        let what = if chance.below(2) == 0 { 0 } else { chance.below(WHAT.len() as u64) as usize };
        let most = match WHAT[what] {
            "any" | "write" | "sync" => [12, 60, 200][chance.below(3) as usize],
            "names" => 1,
            _ => 3,
        };
        let when = ["before", "torn", "after"][chance.below(3) as usize];
        let step = format!("{}:{}:{when}", WHAT[what], 1 + chance.below(most));
        Self { step: Some(step), answers: 150, at_the_earliest: ms(0) }
    }
}
