//! The coordinator under load: a child of this process, or one that runs already.

mod cpu;
mod echo;
mod group_log;
mod posture;
mod process;
mod scrape;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tenure::client::Client;
use tokio::time::sleep;

pub use echo::{Echo, Told, serve};
pub use posture::Posture;
pub use process::{Process, own_program, tenure_program};
pub use scrape::Scrape;

use crate::http::{Answer, Connection, Means, Target};
use crate::stopwatch::tick;

/// How long the server may take to become ready: opening a full store takes some seconds, and a
/// restarted one may wait out a grace.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// How often readiness is asked for; the error of a measured start.
const READY_STEP: Duration = Duration::from_millis(2);

/// A server and how it is reached.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub target: Target,
    /// The version that it names.
    pub version: String,
    own: Option<Own>,
}

/// What belongs to a server of our own. The process drops before its directory.
#[derive(Debug)]
struct Own {
    process: Process,
    program: PathBuf,
    scratch: TempDir,
    settings: Vec<String>,
    starts: u32,
}

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM: it may settle and sync.
    Asked,
    /// SIGKILL: a crash.
    Killed,
}

impl Server {
    /// Uses the running server at `url`.
    pub async fn foreign(url: &str) -> Result<Self> {
        let target = Target::parse(url)?;
        let mut server = Self { target, version: String::new(), own: None };
        server.ready().await?;
        Ok(server)
    }

    /// Starts a server with an empty store in `scratch`, and waits until it is ready for callers with these means.
    pub async fn start(
        program: PathBuf,
        scratch: TempDir,
        settings: &[String],
        means: &Means,
    ) -> Result<Self> {
        let mut process = spawn(&program, &scratch, settings, 0)?;
        let target = process.listening(means).await?;
        let own = Own { process, program, scratch, settings: settings.to_vec(), starts: 1 };
        let mut server = Self { target, version: String::new(), own: Some(own) };
        server.ready().await?;
        Ok(server)
    }

    /// Ends a server of our own and starts it again on the same store; gives the time the ending
    /// took, and the time from starting the program to its being ready.
    pub async fn restart(&mut self, ending: Ending) -> Result<(Duration, Duration)> {
        let own = self.own.as_mut().context("only a server of the tool's own can be restarted")?;
        let begun = tick();
        match ending {
            Ending::Asked => own.process.end(),
            Ending::Killed => own.process.kill(),
        }
        let ended = tick();
        own.process = spawn(&own.program, &own.scratch, &own.settings, own.starts)?;
        own.starts += 1;
        self.target = own.process.listening(self.target.means()).await?;
        let ready = self.ready().await?;
        Ok((ended - begun, ready - ended))
    }

    /// Whether the tool started it.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The bytes that its store takes on the disk, when it is ours.
    pub fn store_bytes(&self) -> Option<f64> {
        self.own.as_ref().map(|own| disk_usage(&store_path(&own.scratch)) as f64)
    }

    /// What speaks to it where speed does not matter.
    pub fn client(&self) -> Result<Client> {
        self.target.means().client(&self.target.url())
    }

    /// Waits until `/readyz` says 200; gives the moment.
    async fn ready(&mut self) -> Result<Instant> {
        let give_up = tick() + READY_LIMIT;
        loop {
            let last = match self.get("/readyz").await {
                Ok(answer) if answer.status == 200 => {
                    let ready = tick();
                    let nodes = self.client()?.nodes().await?.nodes;
                    let version = nodes.into_iter().find(|it| it.this).map(|it| it.version);
                    self.version = version.unwrap_or_else(|| "unknown".to_owned());
                    return Ok(ready);
                }
                Ok(answer) => format!("/readyz says {}", answer.status),
                Err(error) => error.to_string(),
            };
            if let Some(own) = self.own.as_mut() {
                own.process.must_run()?;
            }
            if tick() > give_up {
                bail!("{} is not ready: {last}", self.target.address);
            }
            sleep(READY_STEP).await;
        }
    }

    async fn get(&self, path: &str) -> Result<Answer> {
        Connection::open(&self.target).await?.call(self.target.get(path)?).await
    }

    /// The server's own figures.
    pub async fn scrape(&self) -> Result<Scrape> {
        let answer = self.get("/metrics").await?;
        ensure!(answer.status == 200, "GET /metrics: {}", answer.status);
        Ok(Scrape::new(String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// How many compare-and-sets its store has done; `None` when it does not tell.
    pub async fn store_writes(&self) -> Result<Option<f64>> {
        let name = "tenure_store_request_duration_seconds_count";
        Ok(self.scrape().await?.sum(name, "op=\"compare_and_set\""))
    }

    /// The processor time that a server of our own has used so far, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        let own = self.own.as_ref();
        let own = own.context("only a server of the tool's own tells its processor time")?;
        own.process.cpu()
    }

    /// Resident memory in bytes: from `/proc` for a server of ours, else as it says itself.
    pub async fn resident_bytes(&self) -> Result<f64> {
        if let Some(own) = &self.own {
            let path = format!("/proc/{}/status", own.process.id());
            let status = std::fs::read_to_string(&path).context(path)?;
            let kib = status
                .lines()
                .find_map(|line| line.strip_prefix("VmRSS:"))
                .and_then(|rest| rest.trim().strip_suffix(" kB"))
                .and_then(|text| text.trim().parse::<f64>().ok())
                .context("no VmRSS in the server's status")?;
            return Ok(kib * 1024.0);
        }
        let scrape = self.scrape().await?;
        scrape
            .sum("process_resident_memory_bytes", "")
            .context("the server does not tell process_resident_memory_bytes")
    }
}

fn store_path(scratch: &TempDir) -> PathBuf {
    scratch.path().join("store")
}

/// Default settings, but for the address and the directory.
/// Where the settings file of a server is, if it has one.
pub fn settings_file(scratch: &Path) -> PathBuf {
    scratch.join("tenure.toml")
}

fn spawn(program: &Path, scratch: &TempDir, settings: &[String], start: u32) -> Result<Process> {
    let mut arguments: Vec<OsString> =
        ["serve", "--listen", "127.0.0.1:0", "--data-dir"].map(OsString::from).to_vec();
    arguments.push(store_path(scratch).into());
    let file = settings_file(scratch.path());
    if file.exists() {
        arguments.extend(["--config".into(), file.into()]);
    }
    for setting in settings {
        arguments.extend(["--set".into(), setting.into()]);
    }
    Process::start(program, &arguments, scratch.path().join(format!("server-{start}.log")))
}

/// The bytes that the files below `directory` take on the disk, holes not counted.
fn disk_usage(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => disk_usage(&entry.path()),
            Ok(found) => found.blocks() * 512,
            // Removed meanwhile.
            Err(_) => 0,
        })
        .sum()
}
