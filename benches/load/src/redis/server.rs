//! Redis as a child of this process, on a free port, with its data in a directory that is removed.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tokio::time::sleep;

use super::connection::{Connection, Target};
use super::resp::{Reply, command};
use super::scripts::Scripts;
use crate::endpoint::Endpoint as _;
use crate::server::Process;
use crate::stopwatch::tick;

/// The program.
const PROGRAM: &str = "redis-server";
/// How long it may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// How often it is asked.
const READY_STEP: Duration = Duration::from_millis(20);
/// The channel of the keys that expired.
pub const EXPIRED: &str = "__keyevent@0__:expired";
/// How many commands are sent before their replies are read.
const AT_ONCE: u64 = 1_000;

/// A Redis that answers a write when it is durable. The process drops before its directory.
#[derive(Debug)]
pub struct Redis {
    /// Where it listens.
    pub target: Target,
    /// The lock.
    pub scripts: Arc<Scripts>,
    /// The version that it names.
    pub version: String,
    process: Process,
    _scratch: TempDir,
}

impl Redis {
    /// Starts one whose data lives in `scratch`, and waits until it answers.
    pub async fn start(scratch: TempDir) -> Result<Self> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Free a moment ago: whoever takes it meanwhile makes the start fail.
        let address = TcpListener::bind(loopback)?.local_addr()?;
        let (log, settings) = (scratch.path().join("redis.log"), scratch.path().join("redis.conf"));
        std::fs::write(&settings, configuration(address, scratch.path(), &log))?;
        let mut process = Process::start(Path::new(PROGRAM), &[settings.into()], log)
            .context("Redis: `make debian` installs it")?;
        let target = Target { address };
        let mut connection = answering(target, &mut process).await?;
        let version = version(&mut connection).await?;
        let scripts = Arc::new(Scripts::load(&mut connection).await?);
        Ok(Self { target, scripts, version, process, _scratch: scratch })
    }

    /// The processor time that it has used so far, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        self.process.cpu()
    }

    /// Gives the keys of these numbers to `owner`.
    pub async fn hold(
        &self,
        key: impl Fn(u64) -> String,
        total: u64,
        owner: &str,
        ttl_ms: u64,
    ) -> Result<()> {
        let ttl = ttl_ms.to_string();
        let mut connection = self.target.open().await?;
        for first in (0..total).step_by(AT_ONCE as usize) {
            let numbers = first..total.min(first + AT_ONCE);
            let set = |n| command(&["SET", &key(n), owner, "PX", &ttl]);
            let commands: Vec<u8> = numbers.clone().flat_map(set).collect();
            connection.send(&commands).await?;
            for _ in numbers {
                let reply = connection.reply().await?;
                ensure!(reply == Reply::Text("OK".to_owned()), "SET: {reply:?}");
            }
        }
        Ok(())
    }
}

/// A write is answered when the log is synced, and nothing else is written to the disk. Expired keys are told.
fn configuration(address: SocketAddr, directory: &Path, log: &Path) -> String {
    let (ip, port) = (address.ip(), address.port());
    let (directory, log) = (directory.display(), log.display());
    format!(
        "bind {ip}\nport {port}\ndir \"{directory}\"\nlogfile \"{log}\"\n\
         appendonly yes\nappendfsync always\nsave \"\"\nnotify-keyspace-events Ex\n"
    )
}

/// A connection to it, as soon as it answers.
async fn answering(target: Target, process: &mut Process) -> Result<Connection> {
    let give_up = tick() + READY_LIMIT;
    loop {
        let answer = async {
            let mut connection = target.open().await?;
            connection.send(&command(&["PING"])).await?;
            let reply = connection.reply().await?;
            ensure!(reply == Reply::Text("PONG".to_owned()), "PING: {reply:?}");
            anyhow::Ok(connection)
        };
        let error = match answer.await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        process.must_run()?;
        if tick() > give_up {
            bail!("Redis is not ready: {error:#}");
        }
        sleep(READY_STEP).await;
    }
}

async fn version(connection: &mut Connection) -> Result<String> {
    connection.send(&command(&["INFO", "server"])).await?;
    let reply = connection.reply().await?;
    let Reply::Text(info) = reply else { bail!("INFO: {reply:?}") };
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    Ok(version.context("Redis does not tell its version")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::subscriber::Subscriber;
    use super::*;

    #[tokio::test]
    async fn the_scripts_are_a_lock_with_rising_tokens_that_only_its_owner_keeps_and_frees() {
        let redis = Redis::start(tempfile::tempdir().unwrap()).await.unwrap();
        let mut connection = redis.target.open().await.unwrap();
        let scripts = &redis.scripts;
        for (request, wanted) in [
            (scripts.acquire("a", "one", 60_000), 1),
            (scripts.acquire("a", "two", 60_000), 0),
            (scripts.heartbeat("a", "two", 60_000), 0),
            (scripts.heartbeat("a", "one", 60_000), 1),
            (scripts.release("a", "two"), 0),
            (scripts.release("a", "one"), 1),
            (scripts.release("a", "one"), 0),
            (scripts.heartbeat("a", "one", 60_000), 0),
            (scripts.acquire("a", "two", 60_000), 2),
            (scripts.acquire("b", "two", 60_000), 3),
        ] {
            let sent = String::from_utf8_lossy(&request).into_owned();
            let reply = Target::call(&mut connection, request).await.unwrap();
            assert_eq!(reply, Reply::Integer(wanted), "{sent}");
        }
        assert!(redis.version.contains('.'), "{}", redis.version);
        assert!(redis.cpu().is_ok());
    }

    #[tokio::test]
    async fn subscribers_hear_of_changes_and_of_keys_that_expire() {
        let redis = Redis::start(tempfile::tempdir().unwrap()).await.unwrap();
        let (target, scripts) = (redis.target, &redis.scripts);
        let mut connection = target.open().await.unwrap();
        let mut changes = Subscriber::open(target, "changes").await.unwrap();
        let mut ends = Subscriber::open(target, EXPIRED).await.unwrap();
        for (request, wanted) in [
            (scripts.acquire_and_tell("a", "one", 60_000, "changes"), 1),
            (scripts.acquire_and_tell("a", "two", 60_000, "changes"), 0),
            (scripts.release_and_tell("a", "two", "changes"), 0),
            (scripts.release_and_tell("a", "one", "changes"), 1),
            (scripts.acquire_and_tell("b", "two", 20, "changes"), 2),
        ] {
            let sent = String::from_utf8_lossy(&request).into_owned();
            let reply = Target::call(&mut connection, request).await.unwrap();
            assert_eq!(reply, Reply::Integer(wanted), "{sent}");
        }
        for key in ["a", "a", "b"] {
            assert_eq!(changes.message().await.unwrap(), key);
        }
        assert_eq!(ends.message().await.unwrap(), "b");
    }

    #[tokio::test]
    async fn keys_are_held_and_every_write_is_synced() {
        let redis = Redis::start(tempfile::tempdir().unwrap()).await.unwrap();
        redis.hold(|n| format!("k/{n}"), 1_001, "owner", 60_000).await.unwrap();
        let mut connection = redis.target.open().await.unwrap();
        let beat = redis.scripts.heartbeat("k/1000", "owner", 60_000);
        let reply = Target::call(&mut connection, beat).await.unwrap();
        assert_eq!(reply, Reply::Integer(1));
        let size = Target::call(&mut connection, command(&["DBSIZE"])).await.unwrap();
        assert_eq!(size, Reply::Integer(1_001));
        let info = command(&["INFO", "persistence"]);
        let reply = Target::call(&mut connection, info).await.unwrap();
        let Reply::Text(info) = reply else { panic!("{reply:?}") };
        assert!(info.contains("aof_enabled:1"), "{info}");
    }
}
