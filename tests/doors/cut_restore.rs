//! A test cuts a restore off.

use rustix::process::{Signal, getpid, kill_process};

/// Ends the process during the restore, as `kill -9` would, once as many keys are written as
/// `TENURE_TEST_CUT_RESTORE` says.
pub(super) fn cut_off(written: u64) {
    let told = std::env::var("TENURE_TEST_CUT_RESTORE").ok().and_then(|told| told.parse().ok());
    if told == Some(written) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
