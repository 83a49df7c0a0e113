//! The step between the guardian's fork and the program that it runs.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, process::Command};

/// Replaces this process by the program. The kernel kills the program when its parent, `guardian`, dies: then no other
/// process may be left to stop it in time. Returns only on failure.
pub fn become_program(guardian: u32, argv: &[OsString]) -> io::Error {
    let Some((program, arguments)) = argv.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if !super::serve::is_broken() {
        use rustix::process::{Signal, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
            return error.into();
        }
    }
    // The guardian may have died before the call above.
    if std::os::unix::process::parent_id() != guardian {
        return io::Error::other("the guardian is gone");
    }
    Command::new(program).args(arguments).exec()
}
