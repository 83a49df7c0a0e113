//! TLS as a client, by the operating system's certificates.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::BuildError;

/// Vouched for by the certificates of the operating system (or of `SSL_CERT_FILE`).
pub(super) fn client() -> Result<ClientConfig, BuildError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(ToString::to_string);
        let why = why.unwrap_or_else(|| "the system has no certificates of authorities".into());
        return Err(BuildError::Tls(why));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError::Tls(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Vouched for by nobody: every handshake fails. For connections that are not to use TLS.
pub(super) fn none() -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has these versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}
