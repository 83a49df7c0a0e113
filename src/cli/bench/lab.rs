//! The bench's surroundings: its arguments, the directory for stores, the yardstick, the progress
//! line.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::BenchArgs;
use super::child::{Process, Scratch};
use super::server::Server;
use super::wire::Target;

/// How often the progress line is drawn: it must not cost what is being measured.
const DRAWS_PER_S: u8 = 4;

/// What all workloads share. Fields drop in this order: the child before its directory.
#[derive(Debug)]
pub struct Lab {
    /// The command line.
    pub args: BenchArgs,
    progress: ProgressBar,
    yardstick: Option<Yardstick>,
    data_root: PathBuf,
}

#[derive(Debug)]
struct Yardstick {
    target: Target,
    _process: Process,
    _scratch: Scratch,
}

impl Lab {
    /// Finds the directory for stores and starts the yardstick when asked to.
    pub async fn new(args: BenchArgs, with_yardstick: bool) -> Result<Self> {
        let data_root = match &args.data_root {
            Some(given) => given.clone(),
            None if PathBuf::from("target").is_dir() => PathBuf::from("target"),
            None => std::env::temp_dir(),
        };
        std::fs::create_dir_all(&data_root)
            .with_context(|| format!("--data-root {}", data_root.display()))?;
        let yardstick = match with_yardstick {
            true => {
                let scratch = Scratch::create(&data_root)?;
                let arguments = ["bench".into(), "--echo-server".into()];
                let mut process = Process::start(&arguments, scratch.path().join("echo.log"))?;
                let target = process.listening().await.context("the echo server")?;
                Some(Yardstick { target, _process: process, _scratch: scratch })
            }
            false => None,
        };
        Ok(Self { args, progress: ProgressBar::hidden(), yardstick, data_root })
    }

    /// The echo handler, when there is one.
    pub fn yardstick(&self) -> Option<&Target> {
        self.yardstick.as_ref().map(|it| &it.target)
    }

    /// A new scratch directory where stores live.
    pub fn scratch(&self) -> Result<Scratch> {
        Scratch::create(&self.data_root)
    }

    /// The server to measure: the one that was named, or a new one with an empty store.
    pub async fn server(&self) -> Result<Server> {
        match &self.args.globals.server {
            Some(url) => Server::foreign(url).await,
            None => Server::start(self.scratch()?, &self.args.set).await,
        }
    }

    /// The length of a timed round.
    pub fn round(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    /// The bound of a counted phase.
    pub fn time_limit(&self) -> Duration {
        Duration::from_secs_f64(self.args.time_limit)
    }

    /// Shows a progress bar over `length` steps on standard error, if that is a terminal.
    pub fn show(&mut self, what: &str, length: u64) -> ProgressBar {
        self.quiet();
        if std::io::stderr().is_terminal() {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
            self.progress = ProgressBar::with_draw_target(Some(length), target);
            let template = "{msg} {wide_bar} {human_pos}/{human_len} {elapsed}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.progress.set_style(style);
            }
            self.progress.set_message(what.to_owned());
        }
        self.progress.clone()
    }

    /// Takes the progress bar away.
    pub fn quiet(&mut self) {
        self.progress.finish_and_clear();
        self.progress = ProgressBar::hidden();
    }
}
