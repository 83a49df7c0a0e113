//! Raising a store's epoch: every token to come is greater than every token before.

use std::{collections::HashMap, time::Duration};

use anyhow::Context as _;

use super::{backup::say_locked, output};
use crate::{
    lease::{Epoch, MAX_NODE_TTL_MS, NodeRecord, NodeState, Nonce, Revision},
    manager::engine::{OpenStore, Surroundings},
    settings::{Settings, StoreKind},
    store::{FoundNode, LeaseStore, NodeOutcome, Raise, SharedStore, embedded::EmbeddedStore},
};

/// Epochs are below this: a token has ten bits for them.
const END_OF_EPOCHS: u16 = 1 << 10;
/// How often nodes that may be alive are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// The epoch after this one, or the one that was asked for, if that is above it too.
pub(super) fn above(epoch: Epoch, wanted: Option<u16>) -> anyhow::Result<Epoch> {
    let next = wanted.unwrap_or(epoch.0.saturating_add(1));
    anyhow::ensure!(
        next > epoch.0 && next < END_OF_EPOCHS,
        "the epoch cannot become {next}: it is {} now, and below {END_OF_EPOCHS} always",
        epoch.0
    );
    Ok(Epoch(next))
}

/// Raises the epoch of the settings' store, which keeps all that it holds.
pub(super) async fn in_place(
    settings: &Settings,
    surroundings: &Surroundings,
    wanted: Option<u16>,
) -> anyhow::Result<Epoch> {
    let mut settings = settings.clone();
    settings.store.nats.create_bucket = false;
    settings.store.dynamodb.create_table = false;
    let opened = OpenStore::open(&settings, surroundings).await.map_err(say_locked)?;
    let raised = match above(opened.epoch(), wanted) {
        Ok(epoch) if opened.store.shared().is_some() => {
            shared(&*opened.store, surroundings, epoch, false).await.map(|()| epoch)
        }
        other => other,
    };
    opened.close().await;
    let epoch = raised?;
    if settings.store.kind == StoreKind::Embedded {
        let dir = &settings.store.embedded.data_dir;
        EmbeddedStore::restamp(dir, surroundings.entropy.nonce(), epoch)?;
    }
    Ok(epoch)
}

/// Gives a shared store this epoch and another identity, after it is sure that no node of a lower
/// epoch is alive. Where it is to be restored, no node opens it from then on before that has ended.
pub(super) async fn shared(
    store: &dyn LeaseStore,
    surroundings: &Surroundings,
    epoch: Epoch,
    restoring: bool,
) -> anyhow::Result<()> {
    let shared = store.shared().context("only one process uses this store")?;
    // Read before the nodes are looked at: one that starts later changes it.
    let seen = shared.own_revision().await.context("the store cannot be read")?;
    retire_nodes(shared, surroundings).await?;
    let identity = surroundings.entropy.nonce();
    let raised = shared.raise_epoch(Raise { identity, epoch, seen, restoring }).await;
    let there = shared.refresh_meta().await.context("the store cannot be read")?;
    if there.epoch == epoch && there.identity == identity {
        return Ok(());
    }
    raised.context("the epoch cannot be raised")?;
    anyhow::bail!("somebody else raised the epoch meanwhile, to {}", there.epoch.0)
}

/// Looks for a span whether a node takes up the epoch that was raised. One that was frozen does so by
/// itself, and grants what is not there yet.
pub(super) async fn nobody_wakes(
    shared: &dyn SharedStore,
    surroundings: &Surroundings,
    span: Duration,
) -> anyhow::Result<()> {
    let begun = surroundings.clock.now();
    loop {
        let awake = living(shared).await?;
        let urls = urls(awake.values());
        anyhow::ensure!(
            urls.is_empty(),
            "these nodes were frozen, and went on before everything was there: {urls}. Stop them"
        );
        if surroundings.clock.now().since(begun) >= span {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A node that may be alive: its record, and the revision of it.
type Living = HashMap<Nonce, (Revision, NodeRecord)>;

/// Sees to it that every node's record is terminal. One that runs renews its record four times in its
/// time to live; one that did not within twice that span does not run.
async fn retire_nodes(shared: &dyn SharedStore, surroundings: &Surroundings) -> anyhow::Result<()> {
    let first = living(shared).await?;
    if first.is_empty() {
        return Ok(());
    }
    let longest = first.values().map(|(_, record)| record.ttl_ms.min(MAX_NODE_TTL_MS)).max();
    let patience = Duration::from_millis(longest.unwrap_or_default()) * 2;
    output::talk(&format!(
        "looking for {} s whether these nodes are alive: {}",
        patience.as_secs_f64(),
        urls(first.values())
    ));
    let begun = surroundings.clock.now();
    while surroundings.clock.now().since(begun) < patience {
        tokio::time::sleep(LOOK).await;
        let now = living(shared).await?;
        let renewed = now.iter().filter(|(node, (revision, _))| {
            first.get(node).is_none_or(|(before, _)| before != revision)
        });
        refuse_alive(renewed.map(|(_, found)| found))?;
    }
    for (revision, record) in first.into_values() {
        bury(shared, surroundings, revision, record).await?;
    }
    Ok(())
}

async fn bury(
    shared: &dyn SharedStore,
    surroundings: &Surroundings,
    revision: Revision,
    record: NodeRecord,
) -> anyhow::Result<()> {
    let dead = record.terminal(NodeState::Dead, surroundings.entropy.nonce());
    match shared.write_node(revision, dead).await {
        NodeOutcome::Committed(_) => return Ok(()),
        NodeOutcome::Refused(why) => {
            return Err(why).context("the record of a dead node cannot be written");
        }
        NodeOutcome::Conflict | NodeOutcome::Unknown(_) => {}
    }
    // Somebody was faster, or nobody knows.
    let there = shared.read_node(record.incarnation).await.context("the store cannot be read")?;
    match there.map(|found| found.record) {
        None => Ok(()),
        Some(Ok(there)) if there.state.is_terminal() => Ok(()),
        _ => refuse_alive([&(revision, record)].into_iter()),
    }
}

async fn living(shared: &dyn SharedStore) -> anyhow::Result<Living> {
    let found = shared.scan_nodes().await.context("the nodes' records cannot be read")?;
    let mut living = Living::new();
    for FoundNode { incarnation, revision, record } in found {
        let record = record.with_context(|| {
            format!("the record of node {incarnation} cannot be judged, so it counts as alive")
        })?;
        if !record.state.is_terminal() {
            living.insert(incarnation, (revision, record));
        }
    }
    Ok(living)
}

fn refuse_alive<'n>(nodes: impl Iterator<Item = &'n (Revision, NodeRecord)>) -> anyhow::Result<()> {
    let urls = urls(nodes);
    anyhow::ensure!(urls.is_empty(), "these nodes are alive: {urls}. Stop them first");
    Ok(())
}

fn urls<'n>(nodes: impl Iterator<Item = &'n (Revision, NodeRecord)>) -> String {
    let mut urls: Vec<&str> = nodes.map(|(_, record)| &*record.url).collect();
    urls.sort_unstable();
    urls.join(", ")
}
