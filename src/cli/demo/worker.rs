//! A worker of the demo. It acquires its share of the shards through the API, renews them, and counts updates.

use std::{collections::BTreeMap, time::Duration};

use tokio::{sync::watch, time::MissedTickBehavior};

use super::{
    board::{SharedBoard, locked},
    scenario::{BEAT, MOST_WORKERS, SHARDS, TTL, shard_key, worker_name},
};
use crate::client::{AcquireAny, Client, Owner};

/// How long a worker waits for a shard that another worker may be faster to take.
const WAIT: Duration = Duration::from_millis(100);

/// A lease of a worker.
struct Held {
    lease_id: String,
    token: u64,
}

/// A worker and its leases, by shard.
pub struct Worker {
    client: Client,
    index: usize,
    board: SharedBoard,
    held: BTreeMap<String, Held>,
}

impl Worker {
    pub fn new(client: Client, index: usize, board: SharedBoard) -> Self {
        Self { client, index, board, held: BTreeMap::new() }
    }

    /// Works until it is dropped. While `paused` is true, nothing of it moves.
    pub async fn work(mut self, mut paused: watch::Receiver<bool>) {
        let share = locked(&self.board).share();
        self.take(share, Duration::ZERO).await;
        // Each worker beats at another moment, so that the picture is livelier.
        let part = u32::try_from(self.index).unwrap_or(0);
        tokio::time::sleep(BEAT * part / MOST_WORKERS as u32).await;
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            self.renew().await;
            let held = self.held.iter().map(|(key, held)| (key.as_str(), held.token));
            let reads = locked(&self.board).read(held);
            // All its leases are good. A process may be paused right here, for as long as it takes, and cannot tell.
            if paused.wait_for(|paused| !paused).await.is_err() {
                return;
            }
            locked(&self.board).write(self.index, reads);
            self.balance().await;
        }
    }

    /// Sends a heartbeat for each lease, and forgets those that are lost.
    async fn renew(&mut self) {
        let mut lost = Vec::new();
        for (key, held) in &self.held {
            if self.client.heartbeat(key, &held.lease_id).await.is_err() {
                lost.push(key.clone());
            }
        }
        self.held.retain(|key, _| !lost.contains(key));
    }

    /// Takes what is free up to its share, and gives back what is beyond it.
    async fn balance(&mut self) {
        let share = locked(&self.board).share();
        while self.held.len() > share
            && let Some((key, held)) = self.held.pop_last()
        {
            // If the call fails, the lease runs out.
            let _ = self.client.release(&key, &held.lease_id, None).await;
        }
        for _ in self.held.len()..share {
            if !locked(&self.board).is_anything_free() {
                return;
            }
            self.take(1, WAIT).await;
        }
    }

    async fn take(&mut self, count: usize, wait: Duration) {
        let body = AcquireAny {
            keys: (0..SHARDS).map(shard_key).collect(),
            count: Some(u32::try_from(count).unwrap_or(1).into()),
            wait_ms: u64::try_from(wait.as_millis()).ok(),
            owner: Owner {
                owner: worker_name(self.index),
                ttl_ms: u64::try_from(TTL.as_millis()).ok(),
                session: None,
            },
            ..AcquireAny::default()
        };
        // Others may have been faster. The next beat tries again.
        let Ok(answer) = self.client.acquire_any(&body).await else { return };
        for grant in answer.grants {
            let held = Held { lease_id: grant.lease_id, token: grant.lease.token.unwrap_or(0) };
            self.held.insert(grant.lease.key, held);
        }
    }
}
