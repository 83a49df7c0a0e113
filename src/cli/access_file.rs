//! The access file of a coordinator: read at the start, and followed while it runs.

use std::{path::Path, sync::Arc};

use super::follower::{Changing, Follower};
use crate::{
    access::{Access, Current, Followed, Look},
    clock::{Clock, SystemClock},
    manager::Manager,
    settings::{Faults, Settings},
    telemetry::{FileKind, Files},
};

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
    pub(super) fn start(&self, manager: &Arc<Manager>) -> Follower {
        let files = AccessFiles { file: self.clone(), manager: manager.clone() };
        files.show();
        Follower::start(files)
    }
}

/// The files of a coordinator that runs.
#[derive(Clone)]
struct AccessFiles {
    file: AccessFile,
    manager: Arc<Manager>,
}

impl Changing for AccessFiles {
    const KIND: FileKind = FileKind::Access;
    type Look = Look;

    fn look(&self) -> Look {
        self.file.followed.follow(self.file.clock.wall_ms())
    }

    fn read(&self) -> Look {
        let read = self.file.followed.reload(self.file.clock.wall_ms());
        read.map_or_else(Look::Refused, |()| Look::Applied)
    }

    fn tell(&self, found: Look, reason: &str) {
        match found {
            Look::Nothing => {}
            Look::Applied => self.applied(reason),
            Look::Refused(faults) => self.refused(&faults, reason),
        }
    }

    fn files(&self) -> &Files {
        self.manager.files()
    }
}

impl AccessFiles {
    fn applied(&self, reason: &str) {
        self.show();
        self.files().applied(FileKind::Access);
        let principals = self.file.current().load().principals().len();
        tracing::info!(principals, reason, "access file reloaded: {reason}");
    }

    fn refused(&self, faults: &Faults, reason: &str) {
        let faults: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
        self.files().refused(FileKind::Access, &faults, self.file.clock.wall_ms());
        for fault in &faults {
            tracing::error!(%fault, reason, "access file not reloaded: {reason}");
        }
        tracing::error!(faults = faults.len(), "the access file has faults: the rights stay");
    }

    /// Tells everything that must know of the principals in force.
    fn show(&self) {
        let access: &Access = &self.file.current().load();
        self.manager.limit_principals(access);
        self.manager.publish_access(Some(access));
        self.files().access_generation(self.file.current().generation());
    }
}
