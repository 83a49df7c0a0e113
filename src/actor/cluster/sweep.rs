//! Searches all keys for those that a dead node left.

use std::{sync::Arc, time::Duration};

use crate::{
    actor::{mail::Mail, world::World},
    clock::{HashMap, HashSet},
    lease::{Key, Nonce, Record, SessionOver, State, StoreError},
    store::Range,
};

/// How many keys are read at a time.
const PAGE: usize = 1000;

/// How long to wait after a failed search before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Shows every key with its record to the caller, a page at a time. `None`: the record cannot be interpreted.
pub(in crate::actor) async fn look(
    world: &World,
    mut each: impl FnMut(&Key, Option<&Record>),
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let range = Range { prefix: String::new(), after, limit: PAGE };
        let page = world.store.scan(range).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(last.as_str().to_owned());
        for (key, found) in &page {
            each(key, found.record.as_deref().ok());
        }
        tokio::task::yield_now().await;
    }
}

/// Whether a record requires its home node to do something: it has a tenure, an offer, a lock-delay or a fence.
pub(in crate::actor) fn is_pending(record: &Record) -> bool {
    record.state != State::Free || !record.fences().is_empty()
}

/// The keys that require their home node to do something, by home node.
pub(in crate::actor) type Left = HashMap<Nonce, HashSet<Key>>;

/// Acts on the records of home nodes for which `such` holds. Wakes the actors of keys that require something. For
/// leases that a session keeps, finds out whether the session is alive. For sessions whose end such a node wrote, has
/// the leases searched for: the node may have died before it told them.
pub(in crate::actor) async fn sweep(world: &Arc<World>, such: impl Fn(Nonce) -> bool) -> Left {
    loop {
        let mut left = Left::default();
        let looked = look(world, |key, record| {
            let Some(record) = record.filter(|record| such(record.node)) else { return };
            match (record.bond().filter(|_| record.is_left_to_session()), key.session()) {
                (Some(bond), _) => world.sessions.inquire(bond.session, [key.clone()]),
                (None, _) if is_pending(record) => {
                    let _ = world.registry.start(world, key);
                    world.registry.tell(key.as_str(), || Mail::Nudge);
                    left.entry(record.node).or_default().insert(key.clone());
                }
                (None, Some(digest)) => world.sessions.left(SessionOver::of_record(digest, record)),
                (None, None) => {}
            }
        });
        match looked.await {
            Ok(()) => return left,
            Err(error) => {
                tracing::warn!(%error, "cannot search for the leases of dead nodes; retrying");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Those of these keys that name this home node and require it to do something.
///
/// # Errors
/// Errors of the store.
pub(in crate::actor) async fn named(
    world: &World,
    home: Nonce,
    keys: HashSet<Key>,
) -> Result<HashSet<Key>, StoreError> {
    let keys: Vec<Key> = keys.into_iter().collect();
    let found = world.store.read_many(&keys).await?;
    let names =
        |record: &Record| record.node == home && is_pending(record) && !record.is_left_to_session();
    let named = keys.into_iter().zip(found).filter(|(_, found)| match found {
        // A record that cannot be interpreted may be one.
        Some(found) => found.record.as_deref().is_ok_and(names) || found.record.is_err(),
        None => false,
    });
    Ok(named.map(|(key, _)| key).collect())
}

/// At the start: searches for leases of nodes that are gone or unknown.
pub(in crate::actor) async fn sweep_strangers(world: &Arc<World>) -> Left {
    while !world.registry.has_arbiters() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let terms = world.terms();
    let living = |home: Nonce| {
        let peers = terms.peers.as_ref();
        let peer = peers.and_then(|peers| peers.get(home));
        peer.is_some_and(|peer| !peer.record.state.is_terminal())
    };
    let mut left = sweep(world, |home| home != terms.node && !living(home)).await;
    let gone = terms.peers.iter().flat_map(|peers| peers.iter());
    for peer in gone.filter(|peer| peer.record.state.is_terminal()) {
        left.entry(peer.record.incarnation).or_default();
    }
    left
}
