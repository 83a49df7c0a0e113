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
use crate::clock::boottime_ms;

/// How long after a guardian that did not start another is tried, in milliseconds.
const AGAIN_MS: u64 = 10_000;

struct Company {
    /// Lives as long as the process; the threads of plugins do not.
    runtime: Handle,
    guardian: Mutex<Kept>,
}

/// The guardian of this process.
enum Kept {
    /// None was started yet, or it may be tried anew from this reading of the boot clock on.
    Absent { from_ms: u64 },
    /// It runs, unless it was killed; and the directory that it removes at its end.
    Present { guardian: Guardian, _dir: PrivateDir },
}

static COMPANY: OnceLock<Company> = OnceLock::new();

/// From now on programs end with this process, which must be `tenure` itself: its own program becomes the guardian. To
/// be called inside of the runtime that lives as long as the process.
pub fn keep() {
    let runtime = Handle::current();
    COMPANY.get_or_init(|| Company { runtime, guardian: Mutex::new(Kept::Absent { from_ms: 0 }) });
}

/// For a program that is to end with this process; `None` without [`keep`], and where no guardian can be started, which
/// is said.
pub async fn badge() -> Option<Badge> {
    let company = COMPANY.get()?;
    // On its own: who waits for it may give up in the middle, and the guardian is for all.
    company.runtime.spawn(company.badge()).await.ok().flatten()
}

impl Company {
    async fn badge(&self) -> Option<Badge> {
        let mut kept = self.guardian.lock().await;
        match &*kept {
            Kept::Present { guardian, .. } if !guardian.is_gone() => return Some(guardian.badge()),
            Kept::Absent { from_ms } if boottime_ms() < *from_ms => return None,
            _ => {}
        }
        match start().await {
            Ok((guardian, dir)) => {
                let badge = guardian.badge();
                *kept = Kept::Present { guardian, _dir: dir };
                Some(badge)
            }
            Err(error) => {
                // A fence that is not begun does more harm than one that may outlive this process.
                tracing::warn!(%error, "no guardian: a program that is started now may outlive this process");
                *kept = Kept::Absent { from_ms: boottime_ms() + AGAIN_MS };
                None
            }
        }
    }
}

async fn start() -> io::Result<(Guardian, PrivateDir)> {
    let dir = PrivateDir::new()?;
    Ok((Guardian::start(&dir).await?, dir))
}
