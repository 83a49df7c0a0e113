//! The embedded store as a subject, bare and under wrappers that do no harm.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use tempfile::TempDir;
use tenure::{
    lease::{Key, Nonce, Revision},
    store::{
        LeaseStore, Position, Witness,
        embedded::{EmbeddedStore, Fresh, Options},
    },
};

use crate::stores::{
    conformance,
    faulty::{Faults, Faulty},
    lab::{committed, grant, key},
    subject::{Damage, Subject},
};

/// Small segments, so that a test can have the oldest of them retired.
pub fn open(dir: &Path) -> Arc<EmbeddedStore> {
    let fresh = Fresh { identity: Nonce(3), secret: [9; 32], created_ms: 5_000 };
    let mut options = Options::new(dir, fresh);
    options.segment_bytes = 256 << 10;
    options.min_log_bytes = 512 << 10;
    let store = EmbeddedStore::open(options, Arc::new(|| 1_700_000_000_000));
    Arc::new(store.unwrap_or_else(|why| panic!("{why}")))
}

/// One directory, one handle at a time.
pub struct Embedded {
    dir: TempDir,
    store: Mutex<Option<Arc<EmbeddedStore>>>,
}

impl Embedded {
    fn again(&self) -> Arc<EmbeddedStore> {
        let mut store = self.store.lock().expect("no panic");
        if let Some(before) = store.take() {
            before.close();
        }
        store.insert(open(self.dir.path())).clone()
    }
}

impl Subject for Embedded {
    async fn start() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), store: Mutex::default() }
    }

    async fn open_with(&self, _: Option<Witness>) -> Arc<dyn LeaseStore> {
        self.again()
    }

    fn several(&self) -> bool {
        false
    }

    /// Turns a bit beside the key's name in the log. A record of another version cannot be put there
    /// by hand: a frame's checksum is seeded with what only the store knows.
    async fn spoil(&self, key: &Key, damage: Damage) -> bool {
        if damage == Damage::Newer {
            return false;
        }
        let name = key.as_str().as_bytes();
        let mut spoiled = false;
        for file in fs::read_dir(self.dir.path()).expect("a directory") {
            let path = file.expect("an entry").path();
            let bytes = fs::read(&path).expect("readable");
            let Some(at) = bytes.windows(name.len()).position(|window| window == name) else {
                continue;
            };
            let file = fs::OpenOptions::new().write(true).open(&path).expect("writable");
            let at = at + name.len() + 4;
            file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("written");
            spoiled = true;
        }
        spoiled
    }

    /// Writes until the oldest segment is used again.
    async fn forget_history(&self, store: &Arc<dyn LeaseStore>) -> bool {
        let keys: Vec<Key> = (0..200).map(|n| key(&format!("forget/{n}"))).collect();
        let mut revisions = vec![Revision::ABSENT; keys.len()];
        for seq in 1..500 {
            let writes = keys.iter().zip(&revisions).map(|(key, expected)| {
                committed(store.compare_and_set(grant(key, *expected, seq)))
            });
            revisions = futures_util::future::join_all(writes).await;
            if store.earliest() > Position::default() {
                return true;
            }
        }
        panic!("the log of small segments keeps everything");
    }
}

/// A wrapper around the embedded store that only delays.
struct Wrapped<const LONGEST_MS: u64>(Embedded);

impl<const LONGEST_MS: u64> Subject for Wrapped<LONGEST_MS> {
    async fn start() -> Self {
        Self(Embedded::start().await)
    }

    async fn open_with(&self, _: Option<Witness>) -> Arc<dyn LeaseStore> {
        let faults = Faults::delays(Duration::from_millis(LONGEST_MS));
        Arc::new(Faulty::new(self.0.again(), faults, crate::stores::lab::seed("delays")))
    }

    fn several(&self) -> bool {
        false
    }

    async fn spoil(&self, key: &Key, damage: Damage) -> bool {
        self.0.spoil(key, damage).await
    }

    async fn forget_history(&self, store: &Arc<dyn LeaseStore>) -> bool {
        self.0.forget_history(store).await
    }
}

conformance!(embedded, Embedded);
conformance!(faulty_without_faults, Wrapped<0>);
conformance!(faulty_with_delays, Wrapped<8>);
