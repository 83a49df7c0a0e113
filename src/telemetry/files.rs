//! Files that changed and are not in force: which, why, and since when.

use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge, counter, gauge};

/// The longest reason, in bytes: that of one fault with its place.
const MAX_REASON_BYTES: usize = 512;

/// What is read again while a coordinator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The access file, and the files of keys that it names.
    Access,
    /// The certificate of the port, its key, and what judges the certificates of clients.
    Tls,
    /// The settings file.
    Settings,
}

impl FileKind {
    /// Each kind, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Access, Self::Tls, Self::Settings];

    /// The kind as a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Tls => "tls",
            Self::Settings => "settings",
        }
    }
}

/// A file that is not in force as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInForce {
    /// Which file.
    pub kind: FileKind,
    /// Its first fault.
    pub reason: String,
    /// How many faults it has.
    pub faults: usize,
    /// When the first of the refusals since the last success was, in milliseconds since 1970.
    pub since_ms: u64,
}

/// Which files are in force, and the series that say so.
pub struct Files {
    refused: Mutex<[Option<NotInForce>; 3]>,
    restart: Mutex<Vec<String>>,
    not_in_force: [Gauge; 3],
    access_reloads: [Counter; 2],
    tls_reloads: [Counter; 2],
    settings_reloads: [Counter; 2],
    access_generation: Gauge,
}

impl Files {
    /// Registers the series. All files are in force.
    #[must_use]
    pub fn register() -> Self {
        let files = Self {
            refused: Mutex::default(),
            restart: Mutex::default(),
            not_in_force: FileKind::ALL
                .map(|kind| gauge!("tenure_file_not_in_force", "file" => kind.as_str())),
            access_reloads: ["applied", "refused"]
                .map(|outcome| counter!("tenure_access_reloads_total", "outcome" => outcome)),
            tls_reloads: ["applied", "refused"]
                .map(|outcome| counter!("tenure_tls_reloads_total", "outcome" => outcome)),
            settings_reloads: ["applied", "refused"]
                .map(|outcome| counter!("tenure_config_reloads_total", "outcome" => outcome)),
            access_generation: gauge!("tenure_access_generation"),
        };
        files.not_in_force.iter().for_each(|gauge| gauge.set(0.0));
        files.access_generation.set(0.0);
        files
    }

    /// A file was read and is in force.
    pub fn applied(&self, kind: FileKind) {
        self.reloads(kind)[0].increment(1);
        self.not_in_force[kind as usize].set(0.0);
        self.lock()[kind as usize] = None;
    }

    /// A file was read at this wall time, in milliseconds since 1970, and has faults.
    pub fn refused(&self, kind: FileKind, faults: &[String], now_ms: u64) {
        self.reloads(kind)[1].increment(1);
        self.not_in_force[kind as usize].set(1.0);
        let mut reason = faults.first().cloned().unwrap_or_default();
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        let mut refused = self.lock();
        let before = refused[kind as usize].take();
        let since_ms = before.map_or(now_ms, |before| before.since_ms);
        refused[kind as usize] = Some(NotInForce { kind, reason, faults: faults.len(), since_ms });
    }

    /// These settings changed in their file, and count after a restart.
    pub fn need_restart(&self, keys: Vec<String>) {
        *self.restart.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The settings that count after a restart.
    #[must_use]
    pub fn waiting_for_restart(&self) -> Vec<String> {
        self.restart.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The principals in force are those of this reading of the access file.
    pub fn access_generation(&self, generation: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        self.access_generation.set(generation as f64);
    }

    /// The files that are not in force.
    #[must_use]
    pub fn not_in_force(&self) -> Vec<NotInForce> {
        self.lock().iter().flatten().cloned().collect()
    }

    fn reloads(&self, kind: FileKind) -> &[Counter; 2] {
        match kind {
            FileKind::Access => &self.access_reloads,
            FileKind::Tls => &self.tls_reloads,
            FileKind::Settings => &self.settings_reloads,
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Option<NotInForce>; 3]> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_is_told_of_since_the_first_refusal_until_one_is_applied() {
        let files = Files::register();
        assert_eq!(files.not_in_force(), Vec::new());
        files.refused(FileKind::Access, &["one".to_owned(), "two".to_owned()], 1_000);
        files.refused(FileKind::Access, &["x".repeat(600)], 2_000);
        files.refused(FileKind::Tls, &["half a pair".to_owned()], 3_000);
        let [access, tls] = &files.not_in_force()[..] else { panic!("two files are refused") };
        assert_eq!((access.kind, access.since_ms, access.faults), (FileKind::Access, 1_000, 1));
        assert_eq!(access.reason.len(), MAX_REASON_BYTES);
        assert_eq!((tls.kind, tls.since_ms), (FileKind::Tls, 3_000));
        files.applied(FileKind::Access);
        assert_eq!(files.not_in_force().len(), 1);
        files.refused(FileKind::Access, &["again".to_owned()], 9_000);
        assert_eq!(files.not_in_force()[0].since_ms, 9_000);
    }
}
