//! TLS for clients: which certificate authorities verify a server, and which certificate the client shows.

use std::{error::Error, io, path::Path, path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, RootCertStore,
    client::{Resumption, WantsClientCert, WebPkiServerVerifier},
    crypto::ring,
};

use super::{known_servers::KnownServers, pem};

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

/// A configuration for servers that these authorities verify.
///
/// # Errors
/// [`TlsError`] when the file cannot be used, or there are no certificate authorities.
pub fn client(roots: Roots<'_>) -> Result<ClientConfig, TlsError> {
    client_as(roots, None)
}

/// The same, for a client that proves who it is if the server asks.
///
/// # Errors
/// Also when a file of the client's own cannot be used.
pub fn client_as(
    roots: Roots<'_>,
    identity: Option<Identity<'_>>,
) -> Result<ClientConfig, TlsError> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => add_system(&mut store)?,
        Roots::Only(path) => add_file(&mut store, path)?,
        Roots::SystemAnd(path) => {
            add_file(&mut store, path)?;
            // The system may have none: the file is then enough.
            let _ = add_system(&mut store);
        }
    }
    trusting(store, identity)
}

/// A configuration without any authority: every handshake fails. For connections that must not use TLS.
///
/// # Panics
/// Never: without a certificate of the client, nothing can fail.
#[must_use]
pub fn none() -> ClientConfig {
    trusting(RootCertStore::empty(), None).expect("there is no certificate")
}

fn trusting(
    roots: RootCertStore,
    identity: Option<Identity<'_>>,
) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has these versions");
    let roots = Arc::new(roots);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider).build();
    // It fails if there is no authority. No session begins then.
    let known = verifier.ok().map(|verifier| Arc::new(KnownServers::new(verifier)));
    let builder = match &known {
        Some(known) => builder.dangerous().with_custom_certificate_verifier(known.clone()),
        None => builder.with_root_certificates(roots),
    };
    let mut config = shows(builder, identity)?;
    if let Some(known) = known {
        config.resumption = Resumption::store(known);
    }
    Ok(config)
}

/// The configuration of a client that shows this certificate, if it has one.
fn shows(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<Identity<'_>>,
) -> Result<ClientConfig, TlsError> {
    let Some(Identity { cert, key }) = identity else { return Ok(builder.with_no_client_auth()) };
    let fault = |path: &Path, why| TlsError::Identity { path: path.to_owned(), why };
    let chain = pem::certificates(cert).map_err(|why| fault(cert, why))?;
    let private = pem::key(key).map_err(|why| fault(key, why))?;
    let built = builder.with_client_auth_cert(chain, private);
    built.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            fault(key, format!("is not the key of the first certificate in {}", cert.display()))
        }
        error => fault(cert, format!("cannot be used: {error}")),
    })
}

fn add_system(store: &mut RootCertStore) -> Result<(), TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(());
    }
    let why = found.errors.first().map(ToString::to_string);
    Err(TlsError::System(why.unwrap_or_else(|| "none was found".into())))
}

fn add_file(store: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let fault = |why: String| TlsError::File { path: path.to_owned(), why };
    store.roots.extend(pem::authorities(path).map_err(fault)?.roots);
    Ok(())
}

/// A builder for an HTTP client that uses this configuration for `https` URLs, and ignores every proxy in the
/// environment.
pub fn http(config: ClientConfig) -> reqwest::ClientBuilder {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(config)
}

/// The root cause of an error, and what to do about it if TLS is the reason. `ca` says where a user sets another
/// authority.
#[must_use]
pub fn explain(error: &(dyn Error + 'static), ca: &str) -> String {
    if let Some(fault) = fault(error) {
        return format!("{fault}; {}", advice(fault, ca));
    }
    let (mut cause, mut unreadable) = (error, false);
    while let Some(inner) = cause.source() {
        unreadable |= inner.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        cause = inner;
    }
    if unreadable {
        return format!("{cause}; its answer is not HTTP: if it uses TLS, write https://");
    }
    cause.to_string()
}

/// The TLS error among the causes.
#[must_use]
pub fn fault<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(at) = cause {
        if let Some(fault) = at.downcast_ref() {
            return Some(fault);
        }
        // The error that an I/O error wraps is not its source.
        let wrapped = at.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = match wrapped {
            Some(inner) => Some(inner),
            None => at.source(),
        };
    }
    None
}

fn advice(fault: &rustls::Error, ca: &str) -> String {
    use CertificateError as Bad;
    match fault {
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer) => {
            format!("no authority that is trusted here issued its certificate: name the file of the right one ({ca})")
        }
        rustls::Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "its certificate is for other names: use one of them in the address, or have one issued for this name"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "its certificate has expired: renew it, or set this machine's clock".to_owned()
        }
        rustls::Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "its certificate is not valid yet: set this machine's clock".to_owned()
        }
        rustls::Error::InvalidCertificate(_) => "its certificate cannot be used: have another one issued".to_owned(),
        rustls::Error::InvalidMessage(_) => {
            "the server speaks no TLS: turn TLS on there, or write http:// to use plain text".to_owned()
        }
        rustls::Error::AlertReceived(_) => {
            "the server ended the handshake: its log says why (it may ask for a client's certificate)".to_owned()
        }
        _ => "no secure connection was made".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn wrapped(fault: rustls::Error) -> io::Error {
        // The layers between a socket and a caller wrap errors in this way.
        io::Error::other(io::Error::new(io::ErrorKind::InvalidData, fault))
    }

    #[test]
    fn an_error_of_tls_says_what_to_do_however_deep_it_is() {
        let unknown = wrapped(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
        let said = explain(&unknown, "--ca");
        assert!(said.contains("UnknownIssuer") && said.contains("(--ca)"), "{said}");
        let name = wrapped(rustls::Error::InvalidCertificate(CertificateError::NotValidForName));
        assert!(explain(&name, "--ca").contains("for other names"));
        let plain =
            wrapped(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType));
        assert!(explain(&plain, "--ca").contains("speaks no TLS"));
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(explain(&refused, "--ca"), "connection refused");
    }

    #[test]
    fn a_file_of_no_use_says_so() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let fault = client(Roots::Only(file.path())).unwrap_err().to_string();
        assert!(fault.contains("no certificate in PEM form"), "{fault}");
        file.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .expect("written");
        assert!(matches!(client(Roots::Only(file.path())), Err(TlsError::File { .. })));
        assert!(matches!(
            client(Roots::SystemAnd(Path::new("/no/such"))),
            Err(TlsError::File { .. })
        ));
        assert_eq!(Roots::of(Path::new("")), Roots::System);
    }
}
