//! What a program under a lease is told: its environment, and a file that follows the lease.

use std::{ffi::OsString, fs, io::Read as _, sync::Arc};

use serde_json::json;

use super::{PrivateDir, guardian::RunError};
use crate::client::Lease;

/// The longest value that a lease takes, in bytes.
const VALUE: u64 = 16 * 1024;

/// The files of one tenure. They are removed when this is dropped.
#[derive(Debug)]
pub struct LeaseFile {
    dir: Arc<PrivateDir>,
    lease: String,
    value: String,
}

impl LeaseFile {
    /// LeaseFile with a number that no others in this directory have.
    #[must_use]
    pub fn new(dir: Arc<PrivateDir>, number: u64) -> Self {
        Self { dir, lease: format!("lease-{number}.json"), value: format!("value-{number}") }
    }

    /// The variables of a program under this lease; `servers` are those by which it asks, and `inherits` whether the
    /// lease's value is one that an owner before left.
    ///
    /// # Errors
    /// When a value that fits no variable cannot be written to its file.
    pub fn environment(
        &self,
        lease: &Lease,
        servers: &[(&'static str, OsString)],
        inherits: bool,
    ) -> Result<Vec<(String, OsString)>, RunError> {
        let path = |name: &str| self.dir.path().join(name).into_os_string();
        let ttl = lease.ttl().as_millis().to_string();
        let mut variables = vec![
            ("TENURE_KEY", lease.key().into()),
            ("TENURE_TOKEN", lease.token().to_string().into()),
            ("TENURE_OWNER", lease.owner().into()),
            ("TENURE_TTL_MS", ttl.into()),
            ("TENURE_LEASE_FILE", path(&self.lease)),
            ("TENURE_VALUE_FILE", path(&self.value)),
        ];
        variables.extend_from_slice(servers);
        // A program that is started again goes on from what the one before it left.
        let own = self.value().ok().flatten();
        let left = own.or_else(|| lease.value().filter(|_| inherits).map(str::to_owned));
        match left {
            // A variable cannot hold a NUL. The program finds the value where it leaves its own.
            Some(value) if value.contains('\0') => {
                let written = self.dir.write(&self.value, value.as_bytes());
                written.map_err(|error| RunError::Unable {
                    program: "a program on the value that was left".to_owned(),
                    missing: false,
                    problem: error.to_string(),
                })?;
            }
            left => variables.extend(left.map(|value| ("TENURE_VALUE", value.into()))),
        }
        Ok(variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Writes the lease's file anew; the deadline is a reading of `CLOCK_BOOTTIME`.
    pub fn renew(&self, lease: &Lease, deadline_ms: u64) {
        let text = json!({
            "key": lease.key(),
            "token": lease.token(),
            "owner": lease.owner(),
            "lease_id": lease.lease_id(),
            "deadline_boottime_ms": deadline_ms,
        });
        // Who reads an old deadline stops too early, which harms nobody.
        let _ = self.dir.write(&self.lease, format!("{text}\n").as_bytes());
    }

    /// Removes the lease's file: it is lost.
    pub fn lose(&self) {
        self.dir.remove(&self.lease);
    }

    /// What the program left for its successor.
    ///
    /// # Errors
    /// In words for people, when that cannot be a value.
    pub fn value(&self) -> Result<Option<String>, String> {
        let Ok(file) = fs::File::open(self.dir.path().join(&self.value)) else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(VALUE + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("the value file cannot be read: {error}"))?;
        if bytes.len() as u64 > VALUE {
            return Err(format!("the value file has more than {VALUE} bytes"));
        }
        let value = String::from_utf8(bytes);
        value.map(Some).map_err(|_| "the value file is not UTF-8".to_owned())
    }
}

impl Drop for LeaseFile {
    fn drop(&mut self) {
        self.dir.remove(&self.lease);
        self.dir.remove(&self.value);
    }
}
