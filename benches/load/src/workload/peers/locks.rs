//! What one connection asks of a Redis: the same work as of tenure, in the same closed loop.

use std::sync::Arc;

use super::{held_key, scattered};
use crate::load::Lane;
use crate::redis::{Reply, Scripts, Target};
use crate::workload::{acquire_release, contended, hold::LONG_TTL_MS};

/// The owner of the keys that are held for the whole run.
pub const HOLDER: &str = "bench";

/// Acquire key 0, release it, acquire key 1, …
pub async fn cycle(mut lane: Lane<Target>, scripts: Arc<Scripts>, prefix: String, keys: u64) {
    let mut turn = 0;
    while lane.is_open() {
        let key = format!("{prefix}/{}", turn % keys);
        turn += 1;
        let acquire = scripts.acquire(&key, &prefix, acquire_release::TTL_MS);
        let Some(token) = ask(&mut lane, acquire).await else { continue };
        lane.judge(token > 0, 0, "Redis did not grant a free key");
        let (begun, _) = lane.last();
        if let Some(freed) = ask(&mut lane, scripts.release(&key, &prefix)).await {
            lane.judge(freed == 1, 1, "a release freed nothing in Redis");
            lane.cycled(begun);
        }
    }
}

/// Heartbeats of the keys that are held, every `stride`-th from `turn` on.
pub async fn beat(
    mut lane: Lane<Target>,
    scripts: Arc<Scripts>,
    prefix: String,
    (mut turn, stride, held): (u64, u64, u64),
) {
    while lane.is_open() {
        let key = held_key(&prefix, scattered(turn, held));
        turn += stride;
        let heartbeat = scripts.heartbeat(&key, HOLDER, LONG_TTL_MS);
        if let Some(kept) = ask(&mut lane, heartbeat).await {
            lane.judge(kept == 1, 1, "a held key was not kept in Redis");
        }
    }
}

/// Tries to get a key until it does, and releases it at once. Redis has no queue of those who wait for a key.
pub async fn contend(mut lane: Lane<Target>, scripts: Arc<Scripts>, key: String, owner: String) {
    let mut first_try = None;
    while lane.is_open() {
        let acquire = scripts.acquire(&key, &owner, contended::TTL_MS);
        let Some(token) = ask(&mut lane, acquire).await else { continue };
        let begun = *first_try.get_or_insert(lane.last().0);
        if token == 0 {
            lane.untimed(0);
            continue;
        }
        first_try = None;
        lane.untimed(1);
        lane.cycled(begun);
        if let Some(freed) = ask(&mut lane, scripts.release(&key, &owner)).await {
            if freed == 1 {
                lane.untimed(0);
            } else {
                lane.fault("a release freed nothing in Redis");
            }
        }
    }
}

/// The number that a script answers with; `None`, and a fault, for anything else.
async fn ask(lane: &mut Lane<Target>, command: Vec<u8>) -> Option<i64> {
    match lane.exchange(Ok(command)).await? {
        Reply::Integer(number) => Some(number),
        other => {
            lane.fault(&format!("Redis answered {other:?}"));
            None
        }
    }
}
