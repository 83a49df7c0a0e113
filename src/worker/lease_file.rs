//! What a program under a lease gets: variables in its environment, and a file that is rewritten at each renewal.

use std::{ffi::OsString, fs, io::Read as _, sync::Arc};

use serde_json::json;

use super::{PrivateDir, guardian::RunError};
use crate::client::Lease;

/// The longest value of a lease, in bytes.
const VALUE: u64 = 16 * 1024;

/// The lease file and the value file of one tenure. They are removed when this is dropped.
#[derive(Debug)]
pub struct LeaseFile {
    dir: Arc<PrivateDir>,
    lease: String,
    value: String,
}

impl LeaseFile {
    /// Names the files by a number that is unique in this directory.
    #[must_use]
    pub fn new(dir: Arc<PrivateDir>, number: u64) -> Self {
        Self { dir, lease: format!("lease-{number}.json"), value: format!("value-{number}") }
    }

    /// The variables of a program under this lease. `servers` are the variables that let it call the same servers.
    /// `inherits` says whether the value of the lease is one that the previous owner left.
    ///
    /// # Errors
    /// If a value that fits no variable cannot be written to the value file.
    pub fn environment(
        &self,
        lease: &Lease,
        servers: &[(&'static str, OsString)],
        inherits: bool,
    ) -> Result<Vec<(String, OsString)>, RunError> {
        if !self.dir.path().join(&self.lease).exists() {
            // Somebody removed the files. A failure is told of at the next renewal.
            let _ = self.renew(lease, lease.deadline_boottime_ms());
        }
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
        // A program that is started again gets the value that it left itself.
        let own = self.value().ok().flatten();
        let left = own.or_else(|| lease.value().filter(|_| inherits).map(str::to_owned));
        match left {
            // A variable cannot hold a NUL byte. The program finds such a value in its value file.
            Some(value) if value.contains('\0') => {
                let written = self.dir.write(&self.value, value.as_bytes());
                written.map_err(|error| RunError::Unable {
                    program: "a program with the value of the previous owner".to_owned(),
                    missing: false,
                    problem: error.to_string(),
                })?;
            }
            left => variables.extend(left.map(|value| ("TENURE_VALUE", value.into()))),
        }
        Ok(variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Rewrites the lease file. The deadline is a reading of `CLOCK_BOOTTIME`, in milliseconds.
    ///
    /// # Errors
    /// A message for people, if the file cannot be written. A program that reads an old deadline stops too early.
    pub fn renew(&self, lease: &Lease, deadline_ms: u64) -> Result<(), String> {
        let text = json!({
            "key": lease.key(),
            "token": lease.token(),
            "owner": lease.owner(),
            "lease_id": lease.lease_id(),
            "deadline_boottime_ms": deadline_ms,
        });
        let written = self.dir.write(&self.lease, format!("{text}\n").as_bytes());
        written.map(|_| ()).map_err(|error| {
            let path = self.dir.path().join(&self.lease);
            format!("the lease file {} cannot be written: {error}", path.display())
        })
    }

    /// Removes the lease file, because the lease is lost.
    pub fn lose(&self) {
        self.dir.remove(&self.lease);
    }

    /// The value that the program left for the next owner.
    ///
    /// # Errors
    /// A message for people, if the file does not hold a valid value.
    pub fn value(&self) -> Result<Option<String>, String> {
        let path = self.dir.path().join(&self.value);
        // To open a pipe would wait for its other end.
        match fs::metadata(&path) {
            Err(_) => return Ok(None),
            Ok(found) if !found.is_file() => return Err("the value file is no file".to_owned()),
            Ok(_) => {}
        }
        let Ok(file) = fs::File::open(path) else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(VALUE + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("the value file cannot be read: {error}"))?;
        if bytes.len() as u64 > VALUE {
            return Err(format!("the value file is longer than {VALUE} bytes"));
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
