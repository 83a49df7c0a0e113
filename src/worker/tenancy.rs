//! A lease, and the ward that may run programs as long as it is held.

use std::{sync::Arc, time::Duration};

use super::{
    Papers, PrivateDir,
    guardian::{Guardian, RunError, Running, Task, Ward},
    margin,
};
use crate::{
    client::{Deadline, Lease, Loss},
    clock::boottime_ms,
};

/// A lease with its ward and papers.
#[derive(Debug)]
pub struct Tenancy {
    /// The lease.
    pub lease: Arc<Lease>,
    /// Runs its program.
    pub ward: Ward,
    /// What the program is told.
    pub papers: Papers,
    grace: Duration,
}

impl Tenancy {
    /// A ward for the lease, which knows the lease's deadline.
    #[must_use]
    pub fn new(
        lease: Arc<Lease>,
        guardian: &Guardian,
        dir: &Arc<PrivateDir>,
        grace: Duration,
    ) -> Self {
        let ward = guardian.ward(grace, margin(lease.ttl()));
        let papers = Papers::new(dir.clone(), ward.id());
        let tenancy = Self { lease, ward, papers, grace };
        tenancy.heed(tenancy.lease.deadline());
        tenancy
    }

    /// Runs the program.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(&self, task: Task) -> Result<Running, RunError> {
        self.ward.run(task).await
    }

    fn heed(&self, deadline: Deadline) {
        self.ward.deadline(Some(deadline.boottime_ms));
        match deadline.lost {
            None => self.papers.renew(&self.lease, deadline.boottime_ms),
            Some(_) => self.papers.lose(),
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
        self.ward.stop(self.grace.min(spare));
    }
}
