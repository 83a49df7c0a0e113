//! Follows the store's feed.
//!
//! Guarantees: every committed change is announced, in the store's order. Changes that the feed lost are read from the
//! store's history, or said to be missing.

use std::{sync::Arc, time::Duration};

use tokio::sync::broadcast::error::RecvError;

use super::announce::{announce, missed_some};
use crate::{
    actor::{coordinator::Coordinator, runtime::bus::Resume},
    lease::Nonce,
    store::{Feed, FeedBatch, History, Position},
};

/// The pause after a failed read of the history.
const PAUSE: Duration = Duration::from_millis(100);
/// How many changes are read at a time after the feed lagged.
const CATCH_UP: usize = 1024;

/// Where the feed came to, in which store.
struct Reached {
    position: Position,
    store: Nonce,
}

impl Reached {
    /// Changes before this position were lost.
    fn resume(&mut self, store: Nonce, position: Position) -> Resume {
        let is_anew = store != self.store || position < self.position;
        *self = Self { position, store };
        Resume { position, is_anew }
    }
}

/// Announces every change after a position, for as long as the store has a feed.
pub async fn follow(coordinator: Arc<Coordinator>, mut feed: Feed, position: Position) {
    coordinator.bus.reach(position);
    let mut reached = Reached { position, store: coordinator.store.meta().identity };
    loop {
        match feed.recv().await {
            Ok(FeedBatch::Gap { resume }) => {
                let resume = reached.resume(coordinator.store.meta().identity, resume);
                if coordinator.protocol.a_gap_is_told() {
                    coordinator.bus.lose(resume);
                }
                missed_some(&coordinator);
            }
            Ok(FeedBatch::Changes(batch)) => {
                for committed in batch.iter() {
                    if committed.position > reached.position {
                        reached.position = committed.position;
                        announce(&coordinator, committed.clone());
                    }
                }
            }
            Err(RecvError::Lagged(_)) => catch_up(&coordinator, &mut reached).await,
            Err(RecvError::Closed) => return,
        }
        coordinator.bus.reach(reached.position);
    }
}

async fn catch_up(coordinator: &Coordinator, reached: &mut Reached) {
    loop {
        match coordinator.store.history(reached.position, CATCH_UP).await {
            Ok(History::Changes(changes)) if changes.is_empty() => return,
            Ok(History::Changes(changes)) => {
                for committed in changes {
                    reached.position = committed.position;
                    announce(coordinator, committed);
                }
            }
            Ok(History::Gap { resume }) => {
                tracing::error!(
                    "the store no longer has changes that this node did not publish yet; its subscribers get a reset"
                );
                coordinator.metrics.feed_gaps.increment(1);
                let resume = reached.resume(coordinator.store.meta().identity, resume);
                coordinator.bus.lose(resume);
                return missed_some(coordinator);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the store's history; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Revision;

    fn at(revision: u64) -> Position {
        Position { revision: Revision(revision), index: 0 }
    }

    /// A subscriber may hear of both gaps only after the store went backwards.
    #[test]
    fn a_position_from_before_a_store_went_backwards_hides_nothing() {
        let mut reached = Reached { position: at(50), store: Nonce(1) };
        let gap = reached.resume(Nonce(1), at(90));
        let back = reached.resume(Nonce(2), at(40));
        assert_eq!(back.after(gap.after(at(95))), at(40));
        assert_eq!(gap.after(at(95)), at(95), "the subscriber read further by itself");
        // The gap before is handled when the store has its new identity already.
        let mut reached = Reached { position: at(50), store: Nonce(1) };
        let gap = reached.resume(Nonce(2), at(90));
        let back = reached.resume(Nonce(2), at(40));
        assert_eq!(back.after(gap.after(at(95))), at(40));
    }
}
