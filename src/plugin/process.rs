//! Programs that end when nobody waits for them any more, with all that they started.

use std::{
    io,
    process::{Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

/// Kills the process group that it names, unless it was told that the group's leader is done.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Gone already: nothing to kill.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a program in a process group of its own, with this on its standard input. When the future is
/// dropped the whole group is killed.
///
/// # Errors
/// The program could not be started, or its output not be read.
pub async fn run_group(
    program: &str,
    arguments: &[Box<str>],
    environment: &[(&str, String)],
    stdin: &[u8],
) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| &**argument));
    command.envs(environment.iter().map(|(name, value)| (*name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child: Child = command.spawn()?;
    let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let mut group = Group(leader);
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read is no fault.
        let _ = input.write_all(stdin).await;
    }
    let output = child.wait_with_output().await;
    // It is reaped: its number may be another's from now on.
    group.0 = None;
    output
}
