//! The lock in three scripts, which Redis runs by their digests.

use anyhow::{Result, bail};

use super::connection::Connection;
use super::resp::{Reply, command};

/// Takes the key for the owner if it is free, and gives a fencing token.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                       return redis.call('INCR', KEYS[2]) end return 0";
/// Frees the key if the owner has it.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) end return 0";
/// Lets the key live longer if the owner has it.
const HEARTBEAT: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                         return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
/// The counter of the fencing tokens: one for all keys, the cheapest that is right.
const COUNTER: &str = "fencing-tokens";

/// The digests of the scripts.
#[derive(Clone, Debug)]
pub struct Scripts {
    acquire: String,
    release: String,
    heartbeat: String,
}

impl Scripts {
    /// Loads them.
    pub async fn load(connection: &mut Connection) -> Result<Self> {
        let acquire = load(connection, ACQUIRE).await?;
        let release = load(connection, RELEASE).await?;
        Ok(Self { acquire, release, heartbeat: load(connection, HEARTBEAT).await? })
    }

    /// Answered with the token, or 0.
    pub fn acquire(&self, key: &str, owner: &str, ttl_ms: u64) -> Vec<u8> {
        let ttl = ttl_ms.to_string();
        command(&["EVALSHA", &self.acquire, "2", key, COUNTER, owner, &ttl])
    }

    /// Answered with 1, or 0 when the owner does not have the key.
    pub fn release(&self, key: &str, owner: &str) -> Vec<u8> {
        command(&["EVALSHA", &self.release, "1", key, owner])
    }

    /// Answered as a release is.
    pub fn heartbeat(&self, key: &str, owner: &str, ttl_ms: u64) -> Vec<u8> {
        let ttl = ttl_ms.to_string();
        command(&["EVALSHA", &self.heartbeat, "1", key, owner, &ttl])
    }
}

async fn load(connection: &mut Connection, script: &str) -> Result<String> {
    connection.send(&command(&["SCRIPT", "LOAD", script])).await?;
    match connection.reply().await? {
        Reply::Text(digest) => Ok(digest),
        other => bail!("SCRIPT LOAD: {other:?}"),
    }
}
