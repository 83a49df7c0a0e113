//! Reads files in PEM form. An error says what is wrong with the file, and follows "which".

use std::path::Path;

#[cfg(feature = "server")]
use rustix::process::Uid;
use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error, PemObject},
    },
};

#[cfg(feature = "server")]
use crate::files::read_guarded;

/// The largest file that gives rights, in bytes.
#[cfg(feature = "server")]
const MAX_BYTES: u64 = 64 << 20;

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    all(path, "certificate")
}

/// All objects of one kind in a file, at least one.
pub(super) fn all<T: PemObject>(path: &Path, name: &str) -> Result<Vec<T>, String> {
    check_regular(path)?;
    let read = T::pem_file_iter(path).map_err(|error| said(&error, name))?;
    let found: Vec<T> = read.collect::<Result<_, _>>().map_err(|error| said(&error, name))?;
    if found.is_empty() { Err(absent(name)) } else { Ok(found) }
}

/// All objects of one kind in a file that gives rights, at least one. Nobody may write or replace it but root and this user.
#[cfg(feature = "server")]
pub(super) fn all_guarded<T: PemObject>(
    path: &Path,
    name: &str,
    user: Uid,
) -> Result<Vec<T>, String> {
    let (content, _) = read_guarded(path, MAX_BYTES, user)?;
    let read: Result<Vec<T>, _> = T::pem_slice_iter(&content).collect();
    let found = read.map_err(|error| said(&error, name))?;
    if found.is_empty() { Err(absent(name)) } else { Ok(found) }
}

/// The first private key of a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    check_regular(path)?;
    PrivateKeyDer::from_pem_file(path).map_err(|error| said(&error, "private key"))
}

/// The certificates of a file, as authorities.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| format!("cannot be used: {error}"))?;
    }
    Ok(store)
}

/// To open a pipe would wait for a writer.
fn check_regular(path: &Path) -> Result<(), String> {
    let metadata = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
    if metadata.is_file() {
        Ok(())
    } else {
        Err("cannot be read: it is no regular file".to_owned())
    }
}

fn absent(name: &str) -> String {
    format!("has no {name} in PEM form")
}

fn said(error: &Error, name: &str) -> String {
    match error {
        Error::NoItemsFound => absent(name),
        Error::Io(error) => format!("cannot be read: {error}"),
        error => format!("cannot be read: {error}"),
    }
}
