//! Stores the loads that members report, and reads what members at other nodes say of themselves.
//!
//! Guarantees: all nodes balance by what is stored. A member's loads are stored at most every ten seconds, and only if they
//! differ by more than a quarter of the tolerance from what is stored.
//!
//! Does not guarantee: that a load that was reported is stored. What matters is reported again.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use crate::{
    actor::{
        coordinator::Coordinator,
        sessions::{Due, Session, write_announced},
    },
    lease::{Announced, Answer},
};

/// The time between two looks for loads to store.
const LOOK: Duration = Duration::from_secs(1);
/// How often the records of members at other nodes are read, in looks.
const READ: u32 = 5;
/// The part of its tolerance by which loads must differ from the stored ones.
const PART: f64 = 0.25;
/// How many writes run at a time.
const AT_ONCE: usize = 64;

/// Runs for as long as the process.
pub async fn share(coordinator: &Arc<Coordinator>) {
    for look in 0_u32.. {
        tokio::time::sleep(LOOK).await;
        let now = coordinator.clock.now();
        let mut due = Vec::new();
        let mut is_elsewhere = false;
        for (digest, tolerance) in coordinator.pools.members_by_load() {
            if let Some(session) = coordinator.sessions.get(digest) {
                let loads = session.reported.due(tolerance * PART, now);
                due.extend(loads.map(|loads| (session, loads)));
            }
        }
        if look.is_multiple_of(READ) {
            let is_here = |digest| coordinator.sessions.get(digest).is_some();
            for digest in coordinator.pools.members_that_change(is_here) {
                coordinator.pools.joins_again(digest);
                is_elsewhere = true;
            }
        }
        if is_elsewhere {
            coordinator.pools.work.notify_one();
        }
        let writes = due.into_iter().map(|(session, due)| store(coordinator, session, due));
        stream::iter(writes).buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

async fn store(coordinator: &Arc<Coordinator>, session: Arc<Session>, due: Due) {
    let Due { proof, received, loads, limit } = due;
    let change = |announced| Announced { loads: loads.clone(), load_limit: limit, ..announced };
    let service = &coordinator.session_service;
    match write_announced(service, &session, proof, received.into(), change).await {
        Ok(Answer::Alive { .. }) => session.reported.stored(&loads, limit, coordinator.clock.now()),
        answer => {
            tracing::debug!(session = %session.digest, ?answer, "cannot store the loads of a member; trying again after its next report")
        }
    }
}
