//! Follows the store's feed.
//!
//! Guarantees: every committed change is announced, in the store's order. Changes that the feed lost are read from the
//! store's history, or said to be missing.

use std::{sync::Arc, time::Duration};

use tokio::sync::broadcast::error::RecvError;

use super::announce::{announce, missed_some};
use crate::{
    actor::coordinator::Coordinator,
    store::{Feed, FeedBatch, History, Position},
};

/// The pause after a failed read of the history.
const PAUSE: Duration = Duration::from_millis(100);
/// How many changes are read at a time after the feed lagged.
const CATCH_UP: usize = 1024;

/// Announces every change after a position, for as long as the store has a feed.
pub async fn follow(coordinator: Arc<Coordinator>, mut feed: Feed, mut position: Position) {
    coordinator.bus.reach(position);
    loop {
        match feed.recv().await {
            Ok(FeedBatch::Gap { resume }) => {
                position = resume;
                if coordinator.protocol.a_gap_is_told() {
                    coordinator.bus.lose(resume);
                }
                missed_some(&coordinator);
            }
            Ok(FeedBatch::Changes(batch)) => {
                for committed in batch.iter() {
                    if committed.position > position {
                        position = committed.position;
                        announce(&coordinator, committed.clone());
                    }
                }
            }
            Err(RecvError::Lagged(_)) => position = catch_up(&coordinator, position).await,
            Err(RecvError::Closed) => return,
        }
        coordinator.bus.reach(position);
    }
}

async fn catch_up(coordinator: &Coordinator, mut position: Position) -> Position {
    loop {
        match coordinator.store.history(position, CATCH_UP).await {
            Ok(History::Changes(changes)) if changes.is_empty() => return position,
            Ok(History::Changes(changes)) => {
                for committed in changes {
                    position = committed.position;
                    announce(coordinator, committed);
                }
            }
            Ok(History::Gap { resume }) => {
                tracing::error!(
                    "the store no longer has changes that this node did not publish yet; its subscribers get a reset"
                );
                coordinator.metrics.feed_gaps.increment(1);
                coordinator.bus.lose(resume);
                missed_some(coordinator);
                return resume;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the store's history; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
