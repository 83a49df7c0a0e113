//! Raises a store's epoch: every later token is greater than every earlier one.

use std::{collections::HashMap, time::Duration};

use anyhow::Context as _;

use super::{backup::say_locked, output};
use crate::{
    lease::{Epoch, MAX_NODE_TTL_MS, NodeRecord, NodeState, Nonce, Revision},
    manager::engine::{self, OpenStore, Surroundings},
    settings::Settings,
    store::{FoundNode, LeaseStore, NodeOutcome, Raise, SecretBytes, SharedStore},
};

/// Epochs are below this number: a token has ten bits for the epoch.
const END_OF_EPOCHS: u16 = 1 << 10;
/// How often the records of nodes that may be alive are read.
const LOOK: Duration = Duration::from_millis(250);
/// How long the store may take to show a raise whose outcome is unknown.
const SETTLED: Duration = Duration::from_secs(30);

/// The epoch after this one, or the wanted epoch if that is higher too.
pub(super) fn above(epoch: Epoch, wanted: Option<u16>) -> anyhow::Result<Epoch> {
    let next = wanted.unwrap_or(epoch.0.saturating_add(1));
    anyhow::ensure!(
        next > epoch.0 && next < END_OF_EPOCHS,
        "the epoch cannot become {next}: it is {} now, and must stay below {END_OF_EPOCHS}",
        epoch.0
    );
    Ok(Epoch(next))
}

/// What a raise changes besides the epoch and the identity of the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Nothing,
    /// No node opens the store from then on until the restore has ended.
    Restore,
    /// The store gets this secret.
    Secret(SecretBytes),
}

impl Change {
    fn secret(self) -> Option<SecretBytes> {
        match self {
            Self::Secret(secret) => Some(secret),
            Self::Nothing | Self::Restore => None,
        }
    }
}

/// Raises the epoch of the store that the settings name. The store keeps its contents, and its secret unless `change`
/// names another.
pub(super) async fn in_place(
    settings: &Settings,
    surroundings: &Surroundings,
    wanted: Option<u16>,
    change: Change,
) -> anyhow::Result<Epoch> {
    let opened = OpenStore::open_existing(settings, surroundings).await.map_err(say_locked)?;
    let raised = match above(opened.epoch(), wanted) {
        Ok(epoch) if opened.store.shared().is_some() => {
            shared(&*opened.store, surroundings, epoch, change).await.map(|()| epoch)
        }
        other => other,
    };
    opened.close().await;
    let epoch = raised?;
    engine::restamp(settings, surroundings, epoch, change.secret())?;
    Ok(epoch)
}

/// Gives a shared store this epoch and a new identity, once it is certain that no node of a lower epoch is alive.
pub(super) async fn shared(
    store: &dyn LeaseStore,
    surroundings: &Surroundings,
    epoch: Epoch,
    change: Change,
) -> anyhow::Result<()> {
    let shared = store.shared().context("this kind of store is used by one process only")?;
    // Read before the nodes' records: a node that starts later changes it.
    let seen = shared.own_revision().await.context("the store cannot be read")?;
    retire_nodes(shared, surroundings).await?;
    let identity = surroundings.entropy.nonce();
    let restoring = matches!(change, Change::Restore);
    let raise = Raise { identity, epoch, seen, restoring, secret: change.secret() };
    let raised = shared.raise_epoch(raise).await;
    let begun = surroundings.clock.now();
    loop {
        let there = shared.refresh_meta().await;
        if there.as_ref().is_ok_and(|there| there.epoch == epoch && there.identity == identity) {
            return Ok(());
        }
        if there.is_ok() {
            raised.clone().context("the epoch cannot be raised")?;
        }
        // The store may not answer for a while, or a server that fell behind may answer.
        if surroundings.clock.now().since(begun) >= SETTLED {
            let there = there.context(
                "the epoch may have been raised, and the store cannot be read: if the nodes become ready, it was; \
                 if they stay frozen, repeat this command",
            )?;
            anyhow::bail!("another process raised the epoch meanwhile, to {}", there.epoch.0)
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks for the given time that no node adopts the raised epoch. A frozen node does so by itself, and would then
/// grant keys that are not restored yet.
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
            "these frozen nodes continued before the restore was complete: {urls}. Stop them"
        );
        if surroundings.clock.now().since(begun) >= span {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The nodes that may be alive, with their records and the revisions of these.
type Living = HashMap<Nonce, (Revision, NodeRecord)>;

/// Makes every node's record terminal. A running node renews its record four times per ttl. A node that does not renew
/// it within twice the ttl is not running.
async fn retire_nodes(shared: &dyn SharedStore, surroundings: &Surroundings) -> anyhow::Result<()> {
    let first = living(shared).await?;
    if first.is_empty() {
        return Ok(());
    }
    let longest = first.values().map(|(_, record)| record.ttl_ms.min(MAX_NODE_TTL_MS)).max();
    let patience = Duration::from_millis(longest.unwrap_or_default()) * 2;
    output::talk(&format!(
        "checking for {} s whether these nodes are alive: {}",
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
        mark_dead(shared, surroundings, revision, record).await?;
    }
    Ok(())
}

async fn mark_dead(
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
    // Another process was faster, or the outcome is unknown.
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
            format!("the record of node {incarnation} cannot be read, so it counts as alive")
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
