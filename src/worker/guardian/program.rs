//! Starts programs, without the secrets of the agent in their environment.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use super::{
    process_tree,
    wire::{RunError, Task},
};

/// The path of this program. It works even if the file was replaced.
pub(in crate::worker) fn own_program() -> PathBuf {
    if cfg!(any(target_os = "linux", target_os = "android")) {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_else(|_| "tenure".into())
}

/// The variables of this process that may hold a secret of the agent, or say where one is: a setting, a session id, a
/// lease id, the file with the token.
pub(super) fn secret_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| is_secret(name))
}

fn is_secret(name: &OsStr) -> bool {
    const OWN: [&str; 3] = ["TENURE_SESSION_ID", "TENURE_LEASE_ID", "TENURE_TOKEN_FILE"];
    OWN.map(OsStr::new).contains(&name) || name.as_encoded_bytes().starts_with(b"TENURE__")
}

/// Starts a program in a process group of its own.
pub(super) fn spawn(task: &Task, mark: &str) -> Result<u32, RunError> {
    let program = task.argv.first().map(|name| name.to_string_lossy().into_owned());
    let program = program.unwrap_or_default();
    let stdin = if task.stdin { Stdio::inherit() } else { Stdio::null() };
    let mut command = Command::new(own_program());
    command.arg("guarded").arg(std::process::id().to_string()).arg("--").args(&task.argv);
    for name in secret_variables() {
        command.env_remove(name);
    }
    command.envs(task.env.iter().map(|(name, value)| (name, value)));
    command.env(process_tree::MARK, mark).stdin(stdin).process_group(0);
    let unable = |error: io::Error| RunError::Unable {
        program,
        missing: error.kind() == io::ErrorKind::NotFound,
        problem: error.to_string(),
    };
    command.spawn().map(|child| child.id()).map_err(unable)
}
