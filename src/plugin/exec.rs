//! A program that fences.

use std::{
    collections::BTreeMap,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStderr, ChildStdin, Command},
    time::timeout,
};

use super::{FenceError, FenceOrder, FencePlugin, Fencing, event};
use crate::settings::Secret;

/// So much of the end of its standard error is kept, in bytes.
const KEPT_STDERR: usize = 1024;
/// How long its standard error is read after it exited: what it left running may hold it open.
const STDERR_GRACE: Duration = Duration::from_millis(100);
/// What it sees of this process's environment; the rest may hold secrets.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// Runs a program for each try, in a process group of its own. Exit status 0 confirms. When its time is
/// over the whole group is killed.
pub(super) struct Exec {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Exec {
    pub(super) fn new(command: &[String], environment: &BTreeMap<String, Secret>) -> Self {
        let (program, arguments) = command.split_first().expect("settings have a program");
        let inherited = INHERITED
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        let own = environment.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment: inherited.chain(own).collect(),
        }
    }

    fn command(&self, order: &FenceOrder) -> Command {
        let session = order.session.map(|session| session.to_string()).unwrap_or_default();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("TENURE_KEY", order.key.as_str())
            .env("TENURE_TOKEN", order.token.to_string())
            .env("TENURE_OWNER", order.owner.as_str())
            .env("TENURE_REASON", order.reason.as_str())
            .env("TENURE_SESSION", session)
            .env("TENURE_POOL", &*order.pool)
            .env("TENURE_ATTEMPT", order.attempt.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

impl FencePlugin for Exec {
    fn fence(&self, order: FenceOrder) -> Fencing {
        let command = self.command(&order);
        let program = self.program.clone();
        Box::pin(async move { run(command, &program, &order).await })
    }
}

/// Kills the group when it is dropped; whoever died of it is reaped by the runtime.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

async fn run(mut command: Command, program: &str, order: &FenceOrder) -> Result<(), FenceError> {
    let mut child = command
        .spawn()
        .map_err(|error| FenceError::new(format!("{program} cannot be started: {error}")))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let mut group = Group(pid);
    let tail = Arc::new(Mutex::new(Vec::new()));
    let talk = talk(child.stdin.take(), event::data(order), child.stderr.take(), tail.clone());
    tokio::pin!(talk);
    let mut heard = false;
    let exited = tokio::select! {
        exited = child.wait() => exited,
        () = &mut talk => {
            heard = true;
            child.wait().await
        }
    };
    // It is reaped: its number may be another's from now on.
    group.0 = None;
    if !heard {
        let _ = timeout(STDERR_GRACE, talk).await;
    }
    let status = exited.map_err(|error| FenceError::new(format!("{program} is lost: {error}")))?;
    if status.success() {
        return Ok(());
    }
    let said = tail.lock().unwrap_or_else(PoisonError::into_inner);
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let colon = if said.is_empty() { "" } else { ": " };
    Err(FenceError::new(format!("{program} ended with {status}{colon}{said}")))
}

/// Tells it the order, and listens to what it complains about.
async fn talk(
    stdin: Option<ChildStdin>,
    order: serde_json::Value,
    stderr: Option<ChildStderr>,
    tail: Arc<Mutex<Vec<u8>>>,
) {
    let write = async {
        if let Some(mut stdin) = stdin {
            // One that does not read it closes the pipe, which is no fault.
            let _ = stdin.write_all(format!("{order}\n").as_bytes()).await;
        }
    };
    let read = async {
        let Some(mut stderr) = stderr else { return };
        let mut buffer = [0; KEPT_STDERR];
        while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend_from_slice(&buffer[..length]);
            let surplus = tail.len().saturating_sub(KEPT_STDERR);
            tail.drain(..surplus);
        }
    };
    tokio::join!(write, read);
}
