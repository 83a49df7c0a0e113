//! Programs that a long-lived process starts itself, and that end with it.
//!
//! Guarantees: after [`keep`], a program that wears a [`badge`] is killed, with what it started, when this process is
//! gone, however that happened: by the [`guardian`](super::guardian), which is started with the first of them.
//!
//! Does not guarantee: anything about a program that changed its user, or about what left its group and cleared its
//! environment; anything about what a program left when it ended before; anything when process and guardian are killed
//! in the same moment.

use std::{io, sync::OnceLock};

use tokio::{runtime::Handle, sync::Mutex};

use super::{
    PrivateDir,
    guardian::{Badge, Guardian},
};

/// The guardian of this process, and the directory that it removes at its end.
struct Company {
    /// Lives as long as the process; the threads of plugins do not.
    runtime: Handle,
    guardian: Mutex<Option<(Guardian, PrivateDir)>>,
}

static COMPANY: OnceLock<Company> = OnceLock::new();

/// From now on programs end with this process, which must be `tenure` itself: its own program becomes the guardian. To
/// be called inside of the runtime that lives as long as the process.
pub fn keep() {
    let runtime = Handle::current();
    COMPANY.get_or_init(|| Company { runtime, guardian: Mutex::default() });
}

/// For a program that is to end with this process; `None` without [`keep`].
pub async fn badge() -> Option<Badge> {
    let company = COMPANY.get()?;
    // On its own: who waits for it may give up in the middle, and the guardian is for all.
    let badge = company.runtime.spawn(company.badge()).await;
    badge.map_err(io::Error::other).flatten().map_err(|error| {
        // A fence that is not begun does more harm than one that may outlive this process.
        tracing::warn!(%error, "no guardian: a program that is started now may outlive this process");
    }).ok()
}

impl Company {
    async fn badge(&self) -> io::Result<Badge> {
        let mut kept = self.guardian.lock().await;
        if let Some((guardian, _)) = kept.as_ref().filter(|(guardian, _)| !guardian.is_gone()) {
            return Ok(guardian.badge());
        }
        let dir = PrivateDir::new()?;
        let guardian = Guardian::start(&dir).await?;
        Ok(kept.insert((guardian, dir)).0.badge())
    }
}
