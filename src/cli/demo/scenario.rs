//! The numbers and names of the demo.

use std::time::Duration;

/// How many workers share the shards.
pub const WORKERS: usize = 8;
/// How many shards there are.
pub const SHARDS: usize = 32;
/// The ttl of the leases.
pub const TTL: Duration = Duration::from_secs(2);
/// The worker that is killed.
pub const VICTIM: usize = 3;

pub fn worker_name(index: usize) -> String {
    format!("worker-{}", index + 1)
}

pub fn shard_key(index: usize) -> String {
    format!("shard-{:02}", index + 1)
}
