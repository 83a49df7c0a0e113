//! `tenure cron`: runs a program once for each slot of a schedule, on one of several hosts.
//!
//! Guarantees: a slot is written to the key's value before its program is started, under the lease of the key. So at
//! most one program is started for a slot, whatever hosts die, and no two programs of the key run at a time. Slots are
//! judged by the coordinator's clock: a host whose clock is wrong starts no slot early.
//!
//! Does not guarantee: that a program which was started came to its end. The next run is told what became of the last
//! one.
//!
//! Assumes: all hosts have the same schedule, time zone and key.

mod due;
mod job;
mod record;
mod schedule;
mod turn;
mod wall;

pub use due::Missed;
pub use job::{CronFailure, Job};
pub use schedule::Schedule;

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc;

use self::{
    due::Due,
    turn::{Looked, Turned},
    wall::Wall,
};
use super::{PrivateDir, signals};
use crate::{
    client::ClientError,
    clock::{Chance, Entropy as _, SystemEntropy},
};

/// The pause after a turn that came to nothing: another host has the lease, or no server answers. It doubles with each
/// turn, and a random time of up to the same length is added.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it doubles.
const DOUBLINGS: u32 = 4;
/// Of so many turns in vain, one is told to people.
const TOLD: u32 = 8;
/// How long the command tries to release its leases before it ends.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Runs the program at its slots until a signal asks this process to end. `talk` gets messages for people.
///
/// # Errors
/// [`CronFailure`], if no later try can succeed.
pub async fn run(job: Job, talk: impl Fn(&str)) -> Result<Signal, CronFailure> {
    let mut signals = signals::received()?;
    // Each slot has a directory of its own. That none can be made shows now, and not hours later.
    drop(PrivateDir::new()?);
    let ended = slots(&job, &mut signals, &talk).await;
    let _ = tokio::time::timeout(LAST_WORD, job.client.settled()).await;
    ended
}

async fn slots(
    job: &Job,
    signals: &mut mpsc::Receiver<Signal>,
    talk: &impl Fn(&str),
) -> Result<Signal, CronFailure> {
    let mut chance = SystemEntropy::new().chance();
    let mut wall = Wall::new(job.client.clock().clone());
    let mut looked = Looked::default();
    let mut in_vain = 0;
    loop {
        let due = match job.rule().due(looked.last, wall.now_ms()) {
            Due::At(_) if wall.is_old() => Due::Now(wall.now_ms()),
            due => due,
        };
        let pause = match due {
            Due::At(slot) => wall.until(slot),
            Due::Never => return Err(CronFailure::NoSlot),
            Due::Now(slot) => {
                let is_told = in_vain % TOLD == 0;
                match job.turn(slot, &mut wall, signals, talk).await {
                    Ok(Turned::Signalled(signal)) => return Ok(signal),
                    Ok(Turned::Known(known)) => {
                        if looked.last.is_none() {
                            job.tell_next(known.last, &wall, talk);
                        }
                        (looked, in_vain) = (known, 0);
                    }
                    Ok(Turned::Taken(known)) => {
                        if in_vain > 0 && is_told && !known.runs {
                            talk(&format!("{}: somebody else holds the lease; waiting", job.key));
                        }
                        (looked, in_vain) = (known, in_vain + 1);
                    }
                    Err(CronFailure::Client(error)) if may_pass(&error) => {
                        if is_told {
                            talk(&format!("{}: {error}; trying again", job.key));
                        }
                        in_vain += 1;
                    }
                    Err(failure) => return Err(failure),
                }
                pause(in_vain, &mut chance)
            }
        };
        if let Some(signal) = rest(pause, signals).await {
            return Ok(signal);
        }
    }
}

/// How long to rest after so many turns in vain.
fn pause(in_vain: u32, chance: &mut Chance) -> Duration {
    let Some(doublings) = in_vain.checked_sub(1) else { return Duration::ZERO };
    let least = PAUSE * 2_u32.pow(doublings.min(DOUBLINGS));
    least + chance.jitter(least)
}

/// Whether a later call may succeed.
fn may_pass(error: &ClientError) -> bool {
    match error {
        // A lease that ended between its grant and the run is `lease-lost`.
        ClientError::Refused(problem) => problem.retryable || problem.status == 409,
        ClientError::Unreachable { .. } | ClientError::NoAnswer { .. } => true,
        ClientError::NotUnderstood { status, .. } => *status >= 500,
        _ => false,
    }
}

/// Waits, unless a signal asks this process to end.
async fn rest(pause: Duration, signals: &mut mpsc::Receiver<Signal>) -> Option<Signal> {
    let rest = tokio::time::sleep(pause);
    tokio::pin!(rest);
    loop {
        tokio::select! {
            () = &mut rest => return None,
            Some(signal) = signals.recv() => if signals::is_ending(signal) {
                return Some(signal);
            }
        }
    }
}
