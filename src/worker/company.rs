//! Programs that a long-lived process starts itself, and that end with this process.
//!
//! Guarantees: after [`keep`], a program that carries a [`badge`] is killed when this process is gone for whatever
//! reason, together with the processes that it started. The [`guardian`](super::guardian) does that. It is started with
//! the first of these programs.
//!
//! Does not guarantee: anything about a program that changed its user; about processes that left the program's group
//! and cleared their environment; about processes that a program left behind when it ended before; or if process and
//! guardian are killed at the same moment.

use std::{io, sync::OnceLock};

use tokio::{runtime::Handle, sync::Mutex};

use super::{
    PrivateDir,
    guardian::{Badge, Guardian},
};
use crate::clock::boottime_ms;

/// The pause after a failed start of the guardian, in milliseconds.
const AGAIN_MS: u64 = 10_000;

struct Company {
    /// A runtime that lives as long as the process. The threads of plugins do not.
    runtime: Handle,
    guardian: Mutex<Kept>,
}

/// The guardian of this process.
enum Kept {
    /// None runs. A start may be tried from this reading of the boot clock on.
    Absent { from_ms: u64 },
    /// It runs, unless it was killed. The directory is the one that it removes at its end.
    Present { guardian: Guardian, _dir: PrivateDir },
}

static COMPANY: OnceLock<Company> = OnceLock::new();

/// Makes programs end with this process from now on. The process must be `tenure` itself, because its own program
/// becomes the guardian. Must be called inside the runtime that lives as long as the process.
pub fn keep() {
    let runtime = Handle::current();
    COMPANY.get_or_init(|| Company { runtime, guardian: Mutex::new(Kept::Absent { from_ms: 0 }) });
}

/// A badge for a program that must end with this process. `None` without [`keep`], or if no guardian can be started.
/// The latter is logged.
pub async fn badge() -> Option<Badge> {
    let company = COMPANY.get()?;
    // A task of its own, because the caller may give up while the guardian, which all callers share, starts.
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
                // A fence that is not run does more harm than a fence that may outlive this process.
                tracing::warn!(%error, "cannot start a guardian; programs may outlive this process");
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
