//! The lock in scripts, which Redis runs by their digests.

use anyhow::{Result, bail};

use super::connection::Connection;
use super::resp::{Reply, command};

/// Takes the key for the owner if it is free, and gives a fencing token.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                       return redis.call('INCR', KEYS[2]) end return 0";
/// Frees the key if the owner has it.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) end return 0";
/// As the acquire, and tells the subscribers of a channel.
const ACQUIRE_AND_TELL: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                                local token = redis.call('INCR', KEYS[2]) \
                                redis.call('PUBLISH', ARGV[3], KEYS[1]) return token end return 0";
/// As the release, and tells the subscribers of a channel.
const RELEASE_AND_TELL: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                                redis.call('DEL', KEYS[1]) \
                                redis.call('PUBLISH', ARGV[2], KEYS[1]) return 1 end return 0";
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
    acquire_and_tell: String,
    release_and_tell: String,
}

impl Scripts {
    /// Loads them.
    pub async fn load(connection: &mut Connection) -> Result<Self> {
        Ok(Self {
            acquire: load(connection, ACQUIRE).await?,
            release: load(connection, RELEASE).await?,
            heartbeat: load(connection, HEARTBEAT).await?,
            acquire_and_tell: load(connection, ACQUIRE_AND_TELL).await?,
            release_and_tell: load(connection, RELEASE_AND_TELL).await?,
        })
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

    /// As [`Scripts::acquire`]; the key goes to the subscribers of the channel.
    pub fn acquire_and_tell(&self, key: &str, owner: &str, ttl_ms: u64, channel: &str) -> Vec<u8> {
        let ttl = ttl_ms.to_string();
        let script = &self.acquire_and_tell;
        command(&["EVALSHA", script, "2", key, COUNTER, owner, &ttl, channel])
    }

    /// As [`Scripts::release`]; the key goes to the subscribers of the channel.
    pub fn release_and_tell(&self, key: &str, owner: &str, channel: &str) -> Vec<u8> {
        command(&["EVALSHA", &self.release_and_tell, "1", key, owner, channel])
    }
}

async fn load(connection: &mut Connection, script: &str) -> Result<String> {
    connection.send(&command(&["SCRIPT", "LOAD", script])).await?;
    match connection.reply().await? {
        Reply::Text(digest) => Ok(digest),
        other => bail!("SCRIPT LOAD: {other:?}"),
    }
}
