//! The task of one lease of a pool's member: its start, and the end of the tenure that follows its end.
//!
//! Guarantees: the task runs under its lease alone. It is aborted when the guarantee of the lease ends, and a tenure is
//! ended by this member only after the task has ended.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::member_tasks::{Ended, Handover};
use super::{ClientError, Lease, Loss};
use crate::clock::Clock;

/// How long an aborted task may block its thread until its member goes on without it.
const BLOCKED: Duration = Duration::from_secs(2);

pub(super) type Task = Pin<Box<dyn Future<Output = Result<Handover, String>> + Send>>;

/// Runs the task of a lease, and ends the tenure when the task ends. `heir` names the owner for whom the key is then
/// kept, if it is.
pub(super) async fn tend(
    lease: Arc<Lease>,
    task: Task,
    rest: Duration,
    tracker: &TaskTracker,
    heir: impl FnOnce() -> Option<String>,
) -> Ended {
    // When this future is dropped, the task is dropped too.
    let mut running = JoinSet::new();
    running.spawn(tracker.track_future(async move {
        sleep(rest).await;
        task.await
    }));
    let ended = tokio::select! {
        biased;
        ended = running.join_next() => ended,
        _ = lease.lost() => {
            let left = lease.deadline().until.since(lease.clock().now());
            timeout(left, running.join_next()).await.unwrap_or(None)
        }
    };
    // The next task of this key begins after this one, unless this one blocks its thread.
    let _ = timeout(BLOCKED, running.shutdown()).await;
    let lost = lease.deadline().lost;
    let in_time = lease.clock().now() < lease.deadline().until;
    let outcome = match ended {
        Some(Ok(Ok(handover))) if lost.is_none() => {
            let value = handover.value.as_deref();
            let heir = heir();
            let told = match lease.transfer(heir.as_deref(), value).await {
                Err(ClientError::Refused(_)) => lease.give_back(value, None).await,
                told => told,
            };
            if let Err(error) = told {
                tracing::debug!(key = lease.key(), %error, "a lease is left to its session");
            }
            return if heir.is_some() { Ended::Kept } else { Ended::Done };
        }
        Some(Ok(Ok(handover))) if in_time => {
            // The task stopped before its guarantee ended, so the next owner need not wait that long.
            let _ = lease.give_back(handover.value.as_deref(), None).await;
            return lost.map_or(Ended::Done, Ended::Lost);
        }
        Some(Ok(Err(why))) => Some(why),
        Some(Err(error)) => Some(told(error)),
        Some(Ok(Ok(_))) | None => None,
    };
    if lost.is_none() || (in_time && outcome.is_some()) {
        let _ = lease.give_back(None, outcome.as_deref()).await;
    }
    match (outcome, lost) {
        (Some(why), _) => Ended::Failed(why),
        (None, lost) => Ended::Lost(lost.unwrap_or(Loss::Unknown)),
    }
}

/// The message of a panic.
fn told(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "cancelled".into() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_default())
}
