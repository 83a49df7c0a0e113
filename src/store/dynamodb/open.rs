//! Opens the store: the table, the store's own record, a new session in the log, and the tasks.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    client::Client, error::DynamoOpenError, guard, meta, options::Options, own, removals,
    shared::DynamoShared, streams, table, tail,
};
use crate::{
    clock::Clock,
    lease::StoreError,
    store::{Fresh, Witness, own_level},
    telemetry::Metrics,
};

/// How many requests to the log's task may wait. A hint that finds no room is dropped: the task reads the log soon.
const COMMANDS: usize = 64;
/// How often the store tries to register a new session in the log before opening fails.
const REGISTER_TRIES: u32 = 5;

/// Opens the store. Runs on the store's own thread.
pub(super) async fn open(
    options: Options,
    fresh: Fresh,
    witness: Option<Witness>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<Arc<DynamoShared>, DynamoOpenError> {
    let client = Client::new(&options).await?;
    let identity = table::open(&client, options.create_table).await?;
    let own = meta::open(&client, &fresh, &identity).await?;
    own_level().opens(own.meta.level)?;
    if own.restoring && !options.restore {
        return Err(DynamoOpenError::Restoring { table: client.table });
    }
    let (commands, to_tail) = mpsc::channel(COMMANDS);
    let parts = (own.clone(), identity.clone());
    let bad = |why: StoreError| DynamoOpenError::Unavailable {
        table: client.table.clone(),
        why: why.to_string(),
    };
    let shared =
        Arc::new(DynamoShared::new(client.clone(), options, clock, metrics, parts, commands));
    shared.load().await.map_err(bad)?;
    let head = shared.state().head;
    match own::suspicion(&own, &identity, witness.as_ref(), head) {
        Some(why) => {
            let remember = witness.unwrap_or_else(|| shared.witness());
            shared.freeze_as(why, own.meta.epoch.max(remember.epoch), remember);
        }
        None => {
            shared.state().outbox.registered = true;
            register(&shared).await.map_err(bad)?;
        }
    }
    tokio::spawn(tail::run(Arc::clone(&shared), to_tail));
    tokio::spawn(streams::run(Arc::clone(&shared)));
    tokio::spawn(guard::identity(Arc::clone(&shared)));
    tokio::spawn(guard::resolve_unknown(Arc::clone(&shared)));
    tokio::spawn(guard::old_entries(Arc::clone(&shared)));
    tokio::spawn(removals::look(Arc::clone(&shared)));
    Ok(shared)
}

/// Registers this session in the log, before it writes anything that must be logged.
async fn register(shared: &DynamoShared) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        match tail::flush(shared, false).await {
            Ok(()) => return Ok(()),
            Err(_) if tries < REGISTER_TRIES => tries += 1,
            Err(why) => return Err(why),
        }
        tokio::time::sleep(shared.options.poll_interval).await;
    }
}
