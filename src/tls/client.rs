//! TLS for clients.

use std::{error::Error, io, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    client::Resumption, crypto::ring,
};

use super::{
    followed::Followed,
    trust::{Identity, Roots, TlsError},
};

/// A configuration for servers that these authorities verify. The files are followed: a change is in effect
/// within 2 s.
///
/// # Errors
/// [`TlsError`] when the file cannot be used, or there are no certificate authorities.
pub fn client(roots: Roots<'_>) -> Result<ClientConfig, TlsError> {
    followed(roots, None).map(|(config, _)| config)
}

/// The same with its files, for a client that proves who it is if the server asks.
///
/// # Errors
/// Also when a file of the client's own cannot be used.
pub fn followed(
    roots: Roots<'_>,
    identity: Option<Identity<'_>>,
) -> Result<(ClientConfig, Arc<Followed>), TlsError> {
    let files = Arc::new(Followed::open(roots, identity)?);
    let builder = builder().dangerous().with_custom_certificate_verifier(files.clone());
    let mut config = if files.has_identity() {
        builder.with_client_cert_resolver(files.clone())
    } else {
        builder.with_no_client_auth()
    };
    config.resumption = Resumption::store(files.clone());
    Ok((config, files))
}

/// A configuration without any authority: every handshake fails. For connections that must not use TLS.
#[must_use]
pub fn none() -> ClientConfig {
    builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has these versions")
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
    use std::{io::Write, path::Path};

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
