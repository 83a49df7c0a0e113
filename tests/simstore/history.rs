//! A history that only grows.

#[path = "../history/event.rs"]
mod event;

use std::sync::{Arc, Mutex, PoisonError};

pub use event::{Event, Line, Sight};

#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    pub fn push(&self, t: u64, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Line { t, event });
    }

    pub fn lines(&self) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
