//! Runs programs that are killed, with all processes that they started, when no task waits for them any more.

use std::{
    process::{ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStderr, ChildStdin, Command},
    time::timeout,
};

use crate::worker::{Group, company, guardian::Badge};

/// How many bytes of the end of the program's standard error are kept.
const KEPT_STDERR: usize = 1024;
/// How long standard error is read after the program exited: a process that it left behind may hold it open.
const STDERR_GRACE: Duration = Duration::from_millis(100);
/// The variables that a program inherits from this process. The others may hold secrets.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// A program that exited.
pub struct Ended {
    /// The exit code, or the signal that killed the program.
    pub status: ExitStatus,
    /// The end of its standard error.
    pub complaint: String,
}

/// Runs a program in a process group of its own, with this standard input, and with these variables in addition to the
/// few that it inherits. When the future is dropped, the whole group is killed. If [`company::keep`] was called, the
/// group is also killed when this process is gone.
///
/// # Errors
/// A message for people: the program could not be started, or was lost.
pub async fn run_group(
    program: &str,
    arguments: impl IntoIterator<Item = &str>,
    environment: impl IntoIterator<Item = (&str, &str)>,
    stdin: &[u8],
) -> Result<Ended, String> {
    let inherited =
        INHERITED.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    // Kept until the program is reaped, or its group is killed.
    let badge = company::badge().await;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(inherited)
        .envs(environment)
        .envs(badge.as_ref().map(Badge::variable))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child =
        command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    let mut group = Group::of(child.id());
    let tail = Mutex::new(Vec::new());
    let talk = talk(child.stdin.take(), stdin, child.stderr.take(), &tail);
    let mut talk = Box::pin(talk);
    let mut heard = false;
    let exited = tokio::select! {
        exited = child.wait() => exited,
        () = &mut talk => {
            heard = true;
            child.wait().await
        }
    };
    // The program is reaped: its process id may be reused from now on.
    group.forget();
    if !heard {
        let _ = timeout(STDERR_GRACE, &mut talk).await;
    }
    drop(talk);
    let said = tail.into_inner().unwrap_or_else(PoisonError::into_inner);
    let complaint = String::from_utf8_lossy(&said).trim().to_owned();
    let status = exited.map_err(|error| format!("{program} was lost: {error}"))?;
    Ok(Ended { status, complaint })
}

/// Writes the program's standard input, and reads its standard error.
async fn talk(
    stdin: Option<ChildStdin>,
    told: &[u8],
    stderr: Option<ChildStderr>,
    tail: &Mutex<Vec<u8>>,
) {
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input closes the pipe. That is not an error.
            let _ = stdin.write_all(told).await;
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
