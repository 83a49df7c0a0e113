//! Which certificate authorities verify a server, and which certificate a client shows.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;

use super::pem;

/// The certificate authorities that verify servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots<'a> {
    /// Those of the operating system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    System,
    /// Those of a PEM file, and no others.
    Only(&'a Path),
    /// Those of the operating system, and those of a PEM file.
    SystemAnd(&'a Path),
}

impl<'a> Roots<'a> {
    /// Only the file; the operating system's authorities if no file is named.
    #[must_use]
    pub fn of(file: &'a Path) -> Self {
        if file.as_os_str().is_empty() { Self::System } else { Self::Only(file) }
    }
}

/// The certificate and the private key by which a client proves who it is, in PEM files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The certificate, and those of the authorities between it and a root.
    pub cert: &'a Path,
    /// Its private key.
    pub key: &'a Path,
}

/// Why TLS cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The operating system has no certificate authorities.
    #[error(
        "the system has no certificates of authorities ({0}): install them (the package is often called \
         ca-certificates), or name a file with them"
    )]
    System(String),
    /// A file cannot be used.
    #[error("{path}, for the certificates of authorities, {why}", path = .path.display())]
    File { path: PathBuf, why: String },
    /// The file of a client's certificate or private key cannot be used.
    #[error("{path}, for the client's certificate and key, {why}", path = .path.display())]
    Identity { path: PathBuf, why: String },
}

pub(super) fn add_system(store: &mut RootCertStore) -> Result<(), TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(());
    }
    let why = found.errors.first().map(ToString::to_string);
    Err(TlsError::System(why.unwrap_or_else(|| "none was found".into())))
}

pub(super) fn add_file(store: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let fault = |why: String| TlsError::File { path: path.to_owned(), why };
    store.roots.extend(pem::authorities(path).map_err(fault)?.roots);
    Ok(())
}
