//! A lease, with the slot that may run programs while the lease is held.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    LeaseFile, PrivateDir,
    guardian::{Guardian, RunError, Running, Slot, Task},
    margin,
};
use crate::{
    client::{Deadline, Lease, Loss},
    clock::boottime_ms,
};

/// A lease with its slot and its lease file.
#[derive(Debug)]
pub struct Tenancy {
    pub lease: Arc<Lease>,
    /// The slot that runs the program.
    pub slot: Slot,
    /// The files and variables for the program.
    pub lease_file: LeaseFile,
    grace: Duration,
    /// Whether it was told that the lease file cannot be written.
    told: AtomicBool,
}

impl Tenancy {
    /// Creates a slot for the lease, with the lease's deadline.
    #[must_use]
    pub fn new(
        lease: Arc<Lease>,
        guardian: &Guardian,
        dir: &Arc<PrivateDir>,
        grace: Duration,
    ) -> Self {
        let slot = guardian.slot(grace, margin(lease.ttl()));
        let lease_file = LeaseFile::new(dir.clone(), slot.id());
        let tenancy = Self { lease, slot, lease_file, grace, told: AtomicBool::new(false) };
        // A lease file that cannot be written is told of when somebody follows the lease.
        let _ = tenancy.heed(tenancy.lease.deadline());
        tenancy
    }

    /// Runs the program.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(&self, task: Task) -> Result<Running, RunError> {
        self.slot.run(task).await
    }

    fn heed(&self, deadline: Deadline) -> Result<(), String> {
        self.slot.deadline(Some(deadline.boottime_ms));
        if deadline.lost.is_some() {
            self.lease_file.lose();
            return Ok(());
        }
        self.lease_file.renew(&self.lease, deadline.boottime_ms)
    }

    /// Passes every renewal on to the guardian and the program, until the lease is lost. `talk` gets messages for people.
    pub async fn follow(&self, talk: &impl Fn(&str)) -> Loss {
        let mut deadlines = self.lease.deadlines();
        loop {
            let deadline = *deadlines.borrow_and_update();
            let heeded = self.heed(deadline);
            let was_told = self.told.swap(heeded.is_err(), Ordering::Relaxed);
            if let Some(why) = heeded.err().filter(|_| !was_told) {
                talk(&format!("{}: {why}; the program may stop early", self.lease.key()));
            }
            if let Some(loss) = deadline.lost {
                return loss;
            }
            if deadlines.changed().await.is_err() {
                return deadlines.borrow().lost.unwrap_or(Loss::Unknown);
            }
        }
    }

    /// The time until the latest promise ends, even if the lease is lost.
    #[must_use]
    pub fn left(&self) -> Duration {
        let until = self.lease.deadline().boottime_ms;
        Duration::from_millis(until.saturating_sub(boottime_ms()))
    }

    /// Stops the program within this time, with everything that it started.
    pub fn stop_within(&self, left: Duration) {
        let spare = left.saturating_sub(margin(self.lease.ttl()));
        self.slot.stop(self.grace.min(spare));
    }
}
