//! A lease, and the slot that may run programs as long as it is held.

use std::{sync::Arc, time::Duration};

use super::{
    LeaseFile, PrivateDir,
    guardian::{Guardian, RunError, Running, Slot, Task},
    margin,
};
use crate::{
    client::{Deadline, Lease, Loss},
    clock::boottime_ms,
};

/// A lease with its slot and lease_file.
#[derive(Debug)]
pub struct Tenancy {
    /// The lease.
    pub lease: Arc<Lease>,
    /// Runs its program.
    pub slot: Slot,
    /// What the program is told.
    pub lease_file: LeaseFile,
    grace: Duration,
}

impl Tenancy {
    /// A slot for the lease, which knows the lease's deadline.
    #[must_use]
    pub fn new(
        lease: Arc<Lease>,
        guardian: &Guardian,
        dir: &Arc<PrivateDir>,
        grace: Duration,
    ) -> Self {
        let slot = guardian.slot(grace, margin(lease.ttl()));
        let lease_file = LeaseFile::new(dir.clone(), slot.id());
        let tenancy = Self { lease, slot, lease_file, grace };
        tenancy.heed(tenancy.lease.deadline());
        tenancy
    }

    /// Runs the program.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(&self, task: Task) -> Result<Running, RunError> {
        self.slot.run(task).await
    }

    fn heed(&self, deadline: Deadline) {
        self.slot.deadline(Some(deadline.boottime_ms));
        match deadline.lost {
            None => self.lease_file.renew(&self.lease, deadline.boottime_ms),
            Some(_) => self.lease_file.lose(),
        }
    }

    /// Tells guardian and program of every renewal, until the lease is lost.
    pub async fn follow(&self) -> Loss {
        let mut deadlines = self.lease.deadlines();
        loop {
            let deadline = *deadlines.borrow_and_update();
            self.heed(deadline);
            if let Some(loss) = deadline.lost {
                return loss;
            }
            if deadlines.changed().await.is_err() {
                return deadlines.borrow().lost.unwrap_or(Loss::Unknown);
            }
        }
    }

    /// How long what was promised last still holds, also after the lease was lost.
    #[must_use]
    pub fn left(&self) -> Duration {
        let until = self.lease.deadline().boottime_ms;
        Duration::from_millis(until.saturating_sub(boottime_ms()))
    }

    /// Stops the program, all of it within this time.
    pub fn stop_within(&self, left: Duration) {
        let spare = left.saturating_sub(margin(self.lease.ttl()));
        self.slot.stop(self.grace.min(spare));
    }
}
