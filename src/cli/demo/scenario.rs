//! The numbers and names of the demo.

use std::time::Duration;

/// How many workers share the shards in the story.
pub const WORKERS: usize = 8;
/// How many there are at first with `--keep`: some can be added.
pub const KEPT_WORKERS: usize = 6;
/// The most workers that there may be. Each has a digit of its own.
pub const MOST_WORKERS: usize = 9;
/// How many shards there are.
pub const SHARDS: usize = 32;
/// The ttl of the leases.
pub const TTL: Duration = Duration::from_secs(2);
/// The time between two heartbeats of a worker, and between two updates of a shard.
pub const BEAT: Duration = Duration::from_millis(500);
/// How often the picture is drawn.
pub const FRAME: Duration = Duration::from_millis(100);
/// The worker that is killed.
pub const VICTIM: usize = 3;
/// The worker that is paused.
pub const SLEEPER: usize = 5;

pub fn worker_name(index: usize) -> String {
    format!("worker-{}", index + 1)
}

pub fn shard_key(index: usize) -> String {
    format!("shard-{:02}", index + 1)
}
