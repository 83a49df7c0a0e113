//! Reads from the store what principals with a limit have.

use std::{sync::Arc, time::Duration};

use super::known::Quotas;
use crate::{
    actor::{environment::Environment, runtime::tasks::supervise},
    lease::StoreError,
    store::Pages,
};

/// How many records are read at a time.
const PAGE: usize = 1000;
/// How long to wait after a failed reading before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Reads all records whenever a limit is new or changes were missed, for as long as the process runs.
pub fn start(environment: &Arc<Environment>, quotas: &Arc<Quotas>) {
    let both = Arc::new((environment.clone(), quotas.clone()));
    supervise(&both, "quotas", |both| async move { keep_complete(&both.0, &both.1).await });
}

async fn keep_complete(environment: &Environment, quotas: &Quotas) {
    loop {
        quotas.incomplete().await;
        if let Err(error) = read_holdings(environment, quotas).await {
            tracing::warn!(%error, "cannot read what principals hold; retrying");
            tokio::time::sleep(RETRY).await;
        }
    }
}

async fn read_holdings(environment: &Environment, quotas: &Quotas) -> Result<(), StoreError> {
    let reading = quotas.begin();
    let mut pages = Pages::of(&*environment.store, "", PAGE);
    while let Some(page) = pages.next().await? {
        for (key, found) in page {
            if let Ok(record) = &found.record {
                quotas.found(&key, record, found.revision, reading);
            }
        }
    }
    quotas.complete(reading);
    Ok(())
}
