//! Reads from the store which leases each session keeps.

use std::{sync::Arc, time::Duration};

use super::{known::Sessions, service::SessionService};
use crate::{
    actor::environment::{Environment, each_record},
    lease::{Key, Record},
    store::{StoreError, Tie},
};

/// How long to wait after a failed read of all records before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Reads all records again whenever changes were missed, for as long as the process runs.
pub async fn keep_complete(service: &Arc<SessionService>) {
    let (environment, sessions) = (&service.environment, &service.sessions);
    loop {
        sessions.index.incomplete().await;
        if !environment.protocol.leases_of_sessions_are_read_again_after_a_gap() {
            sessions.index.complete(sessions.index.misses());
        } else if let Err(error) = read_session_leases(environment, sessions, |_, _| {}).await {
            tracing::warn!(%error, "cannot search for the leases of sessions; retrying");
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Reads every record once and shows each to the caller; `None` stands for one that cannot be interpreted. If the store
/// has already read them, only its result is used, and no record is shown.
///
/// # Errors
/// Errors of the store.
pub async fn read_session_leases(
    environment: &Environment,
    sessions: &Sessions,
    mut each: impl FnMut(&Key, Option<&Record>),
) -> Result<(), StoreError> {
    let index = &sessions.index;
    let missed = index.begin();
    match environment.store.take_ties() {
        Some(ties) => ties.into_iter().for_each(|tie| index.heard(Some(tie))),
        None => {
            each_record(&*environment.store, |key, record| {
                index.heard(record.and_then(|record| Tie::of_record(key, record)));
                each(key, record);
            })
            .await?;
        }
    }
    index.complete(missed);
    Ok(())
}
