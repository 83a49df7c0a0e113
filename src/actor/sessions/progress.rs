//! What the heartbeats of a session report about its work.

use std::sync::{Mutex, PoisonError};

/// The latest progress that a session's heartbeats reported.
#[derive(Default)]
pub struct Progress(Mutex<(Box<str>, u64)>);

impl Progress {
    pub fn report(&self, progress: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *last.0 != *progress {
            *last = (progress.into(), last.1 + 1);
        }
    }

    /// How often the reported progress changed.
    pub fn steps(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}
