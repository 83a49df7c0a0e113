//! Child processes, which never outlive the run.
//!
//! Guarantees
//! - A child is ended by its own process id: SIGTERM, some seconds of patience, SIGKILL; also when
//!   the run fails or is interrupted, because that is what dropping it does.
//!
//! Does not guarantee
//! - The same when this process itself is killed with SIGKILL.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::cpu;
use crate::http::{Means, Target};
use crate::stopwatch::{block_for, tick};

/// Patience after SIGTERM: the server settles what is in flight, syncs and frees its memory.
const TERM_PATIENCE: Duration = Duration::from_secs(20);
/// How often an ending child is looked at.
const WAIT_STEP: Duration = Duration::from_millis(5);
/// How often a starting child's output is looked at; the error of a measured start.
const LISTEN_STEP: Duration = Duration::from_millis(2);
/// How long a child may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);
/// What a child prints once its socket is bound, before its URL.
const LISTENING: &str = "listening on ";
/// How much of a failed child's output is shown, in bytes.
const SHOWN_OUTPUT: usize = 3_000;

/// The program that coordinators are started from: the one that was named, or the one beside this.
pub fn tenure_program(named: Option<&Path>) -> Result<PathBuf> {
    let beside = || std::env::current_exe().map(|own| own.with_file_name("tenure"));
    let program = match named {
        Some(named) => named.to_owned(),
        None => beside().context("this program's own file is not known: use --tenure PATH")?,
    };
    ensure!(
        program.is_file(),
        "there is no program {}: run `cargo build --release -p tenure -p tenure-load`, or name it \
         with --tenure PATH",
        program.display()
    );
    Ok(program)
}

/// This program's own file.
pub fn own_program() -> Result<PathBuf> {
    // A program that was rebuilt meanwhile has no file of its name any more, but still this.
    let own = std::env::current_exe().context("this program's own file is not known")?;
    Ok(if own.exists() { own } else { PathBuf::from("/proc/self/exe") })
}

/// A child process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    ended: bool,
}

impl Process {
    /// Starts `program arguments…`, its standard error going to the new file `log`.
    pub fn start(program: &Path, arguments: &[OsString], log: PathBuf) -> Result<Self> {
        let output =
            File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            // A group of its own: Ctrl-C reaches the load tool, which then ends its children.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, log, ended: false })
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The processor time that the child has used so far, user and system.
    pub fn cpu(&self) -> Result<Duration> {
        cpu::used(self.child.id())
    }

    /// Waits until the child says where it listens, for callers with these means.
    ///
    /// # Errors
    /// When it ends instead, says nothing for a minute, or names an address off this machine.
    pub async fn listening(&mut self, means: &Means) -> Result<Target> {
        let said_before = format!("{LISTENING}{}", means.scheme());
        let give_up = tick() + LISTEN_LIMIT;
        loop {
            let said = self.output();
            // Only a whole line: the address may be half written.
            if let Some((_, rest)) = said.split_once(&said_before)
                && let Some(end) = rest.find(|it: char| it.is_whitespace() || it == '"')
            {
                let url = format!("{}{}", means.scheme(), &rest[..end]);
                return Target::reached_by(&url, means.clone());
            }
            self.must_run()?;
            if tick() > give_up {
                bail!("the server does not listen after {LISTEN_LIMIT:?}; it said:\n{said}");
            }
            sleep(LISTEN_STEP).await;
        }
    }

    /// An error, with the child's last words, when it has ended.
    pub fn must_run(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            self.ended = true;
            let said = self.output();
            let mut from = said.len().saturating_sub(SHOWN_OUTPUT);
            while !said.is_char_boundary(from) {
                from += 1;
            }
            bail!("the server ended by itself ({status}); it said:\n{}", &said[from..]);
        }
        Ok(())
    }

    fn output(&self) -> String {
        fs::read(&self.log).map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default()
    }

    /// Ends the child: SIGTERM, patience, SIGKILL.
    pub fn end(&mut self) {
        if self.ended {
            return;
        }
        let give_up = tick() + TERM_PATIENCE;
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        while tick() < give_up {
            match self.child.try_wait() {
                Ok(None) => block_for(WAIT_STEP),
                Ok(Some(_)) | Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
        self.kill();
    }

    /// Ends the child at once: SIGKILL.
    pub fn kill(&mut self) {
        if !self.ended {
            // Errors mean that it is gone already.
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.ended = true;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
