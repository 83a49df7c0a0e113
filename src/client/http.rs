//! The connections of a client.
//!
//! Guarantees: within 2 s after the files for TLS changed, calls begin on new connections, which use the new files.
//! A connection that was open before shows the former certificate, and may show it after its end.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::tls::Followed;

type Build = dyn Fn() -> Result<reqwest::Client, reqwest::Error> + Send + Sync;

/// A pool of connections, which is replaced when the files for TLS change.
pub(super) struct Http {
    /// The number of changes of the files that the pool knows of, and the pool.
    pool: RwLock<(u64, reqwest::Client)>,
    files: Option<Arc<Followed>>,
    build: Box<Build>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Http {
    /// `build` makes a pool with the TLS configuration that follows these files.
    ///
    /// # Errors
    /// If the first pool cannot be made.
    pub(super) fn new(
        files: Option<Arc<Followed>>,
        build: impl Fn() -> Result<reqwest::Client, reqwest::Error> + Send + Sync + 'static,
    ) -> Result<Self, reqwest::Error> {
        let number = files.as_ref().map_or(0, |files| files.changes());
        let pool = RwLock::new((number, build()?));
        Ok(Self { pool, files, build: Box::new(build) })
    }

    /// The pool for a call that begins now.
    pub(super) fn pool(&self) -> reqwest::Client {
        let number = self.files.as_ref().map_or(0, |files| files.changes());
        {
            let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner);
            if pool.0 == number {
                return pool.1.clone();
            }
        }
        let mut pool = self.pool.write().unwrap_or_else(PoisonError::into_inner);
        // If no pool can be made, the calls go on with the former one.
        if let Some(fresh) = (pool.0 != number).then(|| (self.build)().ok()).flatten() {
            *pool = (number, fresh);
        }
        pool.1.clone()
    }
}
