//! The balancer: completes what is known of pools from the store, and asks for leases where a pool is out of balance.
//!
//! Every node computes the same plan from the same view. Each node asks for leases only of sessions whose home node it
//! is.

mod balance;
mod follow;
mod loads;
mod shown;
mod warming;

use std::sync::Arc;

pub(crate) use self::shown::{assign, dry_run, view};
use super::{coordinator::Coordinator, runtime::tasks::supervise};

/// Starts the tasks that run for as long as the process.
pub(crate) fn start(coordinator: &Arc<Coordinator>) {
    supervise(coordinator, "pools", |coordinator| async move {
        follow::follow(&coordinator).await;
    });
    supervise(coordinator, "balance", |coordinator| async move {
        balance::balance(&coordinator).await;
    });
    supervise(coordinator, "loads", |coordinator| async move {
        loads::share(&coordinator).await;
    });
    supervise(coordinator, "warming", |coordinator| async move {
        warming::warm(&coordinator).await;
    });
}
