//! The access file of a coordinator: read at the start, and followed while it runs.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    access::{Access, Current, Followed, Look},
    clock::{Clock, SystemClock},
    manager::Manager,
    settings::{Faults, Settings},
    telemetry::FileKind,
};

/// How often the files are looked at. A change is in force after two looks.
const LOOK: Duration = Duration::from_secs(2);

/// The access file, and the files of keys that it names.
#[derive(Clone)]
pub(super) struct AccessFile {
    followed: Arc<Followed>,
    clock: Arc<dyn Clock>,
}

impl AccessFile {
    /// Reads the file that the settings name, if they name one.
    ///
    /// # Errors
    /// All faults of the file.
    pub(super) fn open(settings: &Settings) -> Result<Option<Self>, Faults> {
        let path: &Path = &settings.auth.file;
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let followed = Arc::new(Followed::open(path, clock.wall_ms())?);
        Ok(Some(Self { followed, clock }))
    }

    /// The principals that are in force.
    pub(super) fn current(&self) -> &Arc<Current> {
        self.followed.current()
    }

    /// Puts the limits of the principals into force, and follows the files from then on.
    pub(super) fn start(&self, manager: &Arc<Manager>) {
        self.show(manager);
        actix::spawn(self.clone().follow(manager.clone()));
    }

    async fn follow(self, manager: Arc<Manager>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let (followed, now_ms) = (self.followed.clone(), self.clock.wall_ms());
            // Leases are served on this thread. A disk may be slow, and a file long.
            let look = tokio::task::spawn_blocking(move || followed.follow(now_ms)).await;
            match look.unwrap_or(Look::Nothing) {
                Look::Nothing => {}
                Look::Applied => self.applied(&manager, "the files changed"),
                Look::Refused(faults) => self.refused(&manager, &faults, "the files changed"),
            }
        }
    }

    /// Reads the files again at once.
    pub(super) fn reload(&self, manager: &Manager) {
        match self.followed.reload(self.clock.wall_ms()) {
            Ok(()) => self.applied(manager, "SIGHUP"),
            Err(faults) => self.refused(manager, &faults, "SIGHUP"),
        }
    }

    fn applied(&self, manager: &Manager, reason: &str) {
        self.show(manager);
        manager.files().applied(FileKind::Access);
        let principals = self.current().load().principals().len();
        tracing::info!(principals, reason, "access file reloaded: {reason}");
    }

    fn refused(&self, manager: &Manager, faults: &Faults, reason: &str) {
        let faults: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
        manager.files().refused(FileKind::Access, &faults, self.clock.wall_ms());
        for fault in &faults {
            tracing::error!(%fault, reason, "access file not reloaded: {reason}");
        }
        tracing::error!(faults = faults.len(), "the access file has faults: the rights stay");
    }

    /// Tells everything that must know of the principals in force.
    fn show(&self, manager: &Manager) {
        let access: &Access = &self.current().load();
        manager.limit_principals(access);
        manager.publish_access(Some(access));
        manager.files().access_generation(self.current().generation());
    }
}
