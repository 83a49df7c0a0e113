//! The tool's surroundings: its arguments, the directory for stores, the yardstick.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::args::Args;
use crate::http::{Means, Target};
use crate::server::{Posture, Process, Server, own_program, settings_file, tenure_program};

/// What all workloads share. Fields drop in this order: the child before its directory.
#[derive(Debug)]
pub struct Lab {
    /// The command line.
    pub args: Args,
    yardstick: Option<Yardstick>,
    data_root: PathBuf,
}

#[derive(Debug)]
struct Yardstick {
    target: Target,
    process: Process,
    _scratch: TempDir,
}

impl Lab {
    /// Finds the directory for stores and starts the yardstick when asked to.
    pub async fn new(args: Args, with_yardstick: bool) -> Result<Self> {
        let data_root = match &args.data_root {
            Some(given) => given.clone(),
            None if PathBuf::from("target").is_dir() => PathBuf::from("target"),
            None => std::env::temp_dir(),
        };
        let named = || format!("--data-root {}", data_root.display());
        std::fs::create_dir_all(&data_root).with_context(named)?;
        // A child may be started from elsewhere; its paths must not depend on that.
        let data_root = std::fs::canonicalize(&data_root).with_context(named)?;
        let mut lab = Self { args, yardstick: None, data_root };
        if with_yardstick {
            let scratch = lab.scratch()?;
            let arguments = ["--echo-server".into(), scratch.path().into()];
            let log = scratch.path().join("echo.log");
            let mut process = Process::start(&own_program()?, &arguments, log)?;
            let target = process.listening(&Means::default()).await.context("the echo server")?;
            lab.yardstick = Some(Yardstick { target, process, _scratch: scratch });
        }
        Ok(lab)
    }

    /// Where the echo handlers are, when they were started.
    pub fn yardstick(&self) -> Option<&Target> {
        self.yardstick.as_ref().map(|it| &it.target)
    }

    /// The processor time that their process has used so far, user and system.
    pub fn yardstick_cpu(&self) -> Result<Duration> {
        self.yardstick.as_ref().context("the echo server was not started")?.process.cpu()
    }

    /// A new scratch directory where stores live; it is removed on drop.
    pub fn scratch(&self) -> Result<TempDir> {
        let builder =
            || tempfile::Builder::new().prefix("tenure-load-").tempdir_in(&self.data_root);
        builder().with_context(|| format!("no directory below {}", self.data_root.display()))
    }

    /// The server to measure: the one that was named, or a new one with an empty store.
    pub async fn server(&self) -> Result<Server> {
        match &self.args.server {
            Some(url) => Server::foreign(url).await,
            None => self.own_server(Posture { token: self.args.access, tls: self.args.tls }).await,
        }
    }

    /// A new server that asks this of its callers, with an empty store.
    pub async fn own_server(&self, posture: Posture) -> Result<Server> {
        self.own_server_with(posture, None).await
    }

    /// The same, with a settings file of this content.
    pub async fn own_server_with(&self, posture: Posture, file: Option<&str>) -> Result<Server> {
        let program = tenure_program(self.args.tenure.as_deref())?;
        let scratch = self.scratch()?;
        if let Some(content) = file {
            std::fs::write(settings_file(scratch.path()), content)?;
        }
        let (mut settings, means) = posture.prepare(&program, scratch.path())?;
        settings.extend_from_slice(&self.args.set);
        Server::start(program, scratch, &settings, &means).await
    }

    /// The length of a timed round.
    pub fn round(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    /// The bound of a counted phase.
    pub fn time_limit(&self) -> Duration {
        Duration::from_secs_f64(self.args.time_limit)
    }
}
