//! The value whose drop reports an actor's death, whatever its cause.

use tokio::sync::mpsc::UnboundedSender;

use crate::lease::{Key, Moment};

#[derive(Debug)]
pub struct Death<N = Key> {
    /// Whose actor died: the key of a lease, or the name of a plugin.
    pub key: N,
    pub incarnation: u64,
    /// It panicked. Otherwise it stopped, or its arbiter did.
    pub panicked: bool,
    pub at: Moment,
}

/// Must be an actor's last field: its drop reports the death. The drop must not panic, block or lock, because it may
/// run while the thread unwinds. Therefore the channel is unbounded; the number of actors bounds it.
pub struct ExitNotice<N: Clone = Key> {
    key: N,
    incarnation: u64,
    clock: std::sync::Arc<dyn crate::clock::Clock>,
    deaths: UnboundedSender<Death<N>>,
    silent: bool,
}

impl<N: Clone> ExitNotice<N> {
    pub fn new(
        key: N,
        incarnation: u64,
        clock: std::sync::Arc<dyn crate::clock::Clock>,
        deaths: UnboundedSender<Death<N>>,
    ) -> Self {
        Self { key, incarnation, clock, deaths, silent: false }
    }

    pub fn key(&self) -> &N {
        &self.key
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The actor leaves memory on purpose, and is no longer in the registry.
    pub fn silence(&mut self) {
        self.silent = true;
    }
}

impl<N: Clone> Drop for ExitNotice<N> {
    fn drop(&mut self) {
        if self.silent {
            return;
        }
        let _ = self.deaths.send(Death {
            key: self.key.clone(),
            incarnation: self.incarnation,
            panicked: std::thread::panicking(),
            at: self.clock.now(),
        });
    }
}
