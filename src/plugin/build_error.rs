//! Why a plugin cannot be made.

use crate::{
    settings::{FileError, NotBuilt},
    tls::TlsError,
};

/// Why a plugin cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file with a secret cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// This build lacks the kind.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] TlsError),
    /// A value passed validation but cannot be used.
    #[error("{key} cannot be used: {why}")]
    Setting {
        /// The key of the setting, such as `url`.
        key: &'static str,
        /// The reason, without the value.
        why: String,
    },
}
