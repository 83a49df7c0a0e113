//! What to run, and when.

use std::{ffi::OsString, io, time::Duration};

use super::{
    due::{Missed, Rule},
    schedule::Schedule,
    wall::Wall,
};
use crate::{
    client::{Client, ClientError},
    clock::rfc3339,
    worker::run::RunFailure,
};

/// What to run, and when.
#[derive(Debug)]
pub struct Job {
    /// The client that acquires the lease.
    pub client: Client,
    /// The key that stands for the schedule on all hosts.
    pub key: String,
    /// The owner of the lease.
    pub owner: String,
    /// How long the lease lasts without a heartbeat.
    pub ttl: Duration,
    /// The time between SIGTERM and SIGKILL if the lease is lost.
    pub grace: Duration,
    /// The slots.
    pub schedule: Schedule,
    /// What becomes of slots at which no host could run the program.
    pub missed: Missed,
    /// How late a program may begin if missed slots are skipped.
    pub late: Duration,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// Why a schedule cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CronFailure {
    /// The server refuses the calls.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No program can be run here.
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// The key's value is not that of a schedule.
    #[error("{0}")]
    Foreign(String),
    /// There is no further slot.
    #[error("the schedule has no further slot")]
    NoSlot,
}

impl From<io::Error> for CronFailure {
    fn from(error: io::Error) -> Self {
        Self::Run(error.into())
    }
}

impl Job {
    /// Says when this host will run the program next.
    pub(super) fn tell_next(&self, last: Option<u64>, wall: &Wall, talk: &impl Fn(&str)) {
        let next = self.schedule.next(last.unwrap_or_default().max(wall.now_ms()));
        if let Some(next) = next {
            talk(&format!("{}: the next slot is {}", self.key, rfc3339(next)));
        }
    }

    /// When its slots are due.
    pub(super) fn rule(&self) -> Rule<'_> {
        let late_ms = u64::try_from(self.late.as_millis()).unwrap_or(u64::MAX);
        Rule { schedule: &self.schedule, missed: self.missed, late_ms }
    }
}
