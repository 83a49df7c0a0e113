//! A worker of the demo. It acquires shards through the API, renews them, and waits for more.

use std::{collections::HashMap, time::Duration};

use super::{
    board::{SharedBoard, locked},
    scenario::{SHARDS, TTL, VICTIM, WORKERS, shard_key, worker_name},
};
use crate::client::{AcquireAny, Client, Grant, Owner};

/// Number of shards that a worker takes at first.
const FAIR: usize = SHARDS / WORKERS;
/// Number of shards that a worker takes at most.
const CAPACITY: usize = FAIR + 1;
const BEAT: Duration = Duration::from_millis(500);

/// Works until it is aborted. An abort is like `kill -9`: no more heartbeats follow.
pub async fn work(client: Client, index: usize, board: SharedBoard) {
    let mut held = HashMap::new();
    take(&client, index, FAIR as u32, 0, &mut held).await;
    // Each worker starts at another moment, so that the picture is livelier.
    tokio::time::sleep(BEAT * u32::try_from(index).unwrap_or(0) / 8).await;
    let mut beat = tokio::time::interval(BEAT);
    loop {
        beat.tick().await;
        let mut lost = Vec::new();
        for (key, lease_id) in &held {
            if client.heartbeat(key, lease_id).await.is_err() {
                lost.push(key.clone());
            }
        }
        for key in lost {
            held.remove(&key);
        }
        let spare = index != VICTIM && held.len() < CAPACITY;
        let wanting = locked(&board).is_anything_free();
        if spare && wanting {
            take(&client, index, 1, 100, &mut held).await;
        }
    }
}

async fn take(
    client: &Client,
    index: usize,
    count: u32,
    wait_ms: u64,
    held: &mut HashMap<String, String>,
) {
    let body = AcquireAny {
        keys: (0..SHARDS).map(shard_key).collect(),
        count: Some(count.into()),
        wait_ms: Some(wait_ms),
        owner: Owner {
            owner: worker_name(index),
            ttl_ms: u64::try_from(TTL.as_millis()).ok(),
            session: None,
        },
        ..AcquireAny::default()
    };
    let grants = client.acquire_any(&body).await.map(|answer| answer.grants).unwrap_or_default();
    for Grant { lease, lease_id, .. } in grants {
        held.insert(lease.key, lease_id);
    }
}
