//! Searches all keys for those that a dead node left.

use std::time::Duration;

use crate::{
    actor::{coordinator::Coordinator, environment::each_record, mail::Mail},
    clock::{HashMap, HashSet},
    lease::{Key, KeyState, Nonce, Record, SessionOver, StoreError},
};

/// How long to wait after a failed search before the next one.
const RETRY: Duration = Duration::from_millis(500);

/// Whether a record requires its home node to do something: it has a tenure, an offer, a lock-delay or a fence.
pub fn is_pending(record: &Record) -> bool {
    record.state != KeyState::Free || !record.fences().is_empty()
}

/// The keys that require their home node to do something, by home node.
pub type Left = HashMap<Nonce, HashSet<Key>>;

/// Acts on the records of home nodes for which `such` holds. Wakes the actors of keys that require something. For
/// leases that a session keeps, finds out whether the session is alive. For sessions whose end such a node wrote, has
/// the leases searched for: the node may have died before it told them.
pub async fn sweep(coordinator: &Coordinator, such: impl Fn(Nonce) -> bool) -> Left {
    loop {
        let mut left = Left::default();
        let looked = each_record(&*coordinator.store, |key, record| {
            let Some(record) = record.filter(|record| such(record.node)) else { return };
            match (record.session_ref().filter(|_| record.is_left_to_session()), key.session()) {
                (Some(session_ref), _) => {
                    let (sessions, digest) = (&coordinator.sessions, session_ref.session);
                    sessions.found(coordinator, digest, key, record);
                    sessions.inquire(digest, [key.clone()]);
                }
                (None, _) if is_pending(record) => {
                    let _ = coordinator.registry.start(key);
                    coordinator.registry.tell(key.as_str(), || Mail::Nudge);
                    left.entry(record.node).or_default().insert(key.clone());
                }
                (None, Some(digest)) => {
                    coordinator.sessions.left(SessionOver::of_record(digest, record))
                }
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
pub async fn named(
    coordinator: &Coordinator,
    home: Nonce,
    keys: HashSet<Key>,
) -> Result<HashSet<Key>, StoreError> {
    let keys: Vec<Key> = keys.into_iter().collect();
    let found = coordinator.store.read_many(&keys).await?;
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
pub async fn sweep_strangers(coordinator: &Coordinator) -> Left {
    while !coordinator.registry.has_arbiters() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let context = coordinator.node_context();
    let living = |home: Nonce| {
        let peers = context.peers.as_ref();
        let peer = peers.and_then(|peers| peers.get(home));
        peer.is_some_and(|peer| !peer.record.state.is_terminal())
    };
    let mut left = sweep(coordinator, |home| home != context.node && !living(home)).await;
    let gone = context.peers.iter().flat_map(|peers| peers.iter());
    for peer in gone.filter(|peer| peer.record.state.is_terminal()) {
        left.entry(peer.record.incarnation).or_default();
    }
    left
}
