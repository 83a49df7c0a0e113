//! What a connection proves of the caller. Handlers find it with `HttpRequest::conn_data`.
//!
//! Guarantees: a [`PeerCertificate`] was verified when its TLS session began: an authority of `server.tls_client_ca`
//! issued it, it was valid then, and no list of `server.tls_crl` revoked it. A [`PeerUid`] comes from the kernel.
//!
//! Does not guarantee: that the certificate is still valid. A connection may be older than its end or its revocation.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::access::CertificateNames;

/// The certificate of the client at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Its alternative names. The common name of its subject does not count.
    pub names: CertificateNames,
}

/// The user id of the process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUid(pub u32);

impl PeerCertificate {
    /// The first certificate of a verified chain; `None` if there is none, or it is malformed.
    pub fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let certificate = EndEntityCert::try_from(chain.first()?).ok()?;
        let uris = certificate.valid_uri_names().map(str::to_owned).collect();
        let dns = certificate.valid_dns_names().map(str::to_owned).collect();
        Some(Self { names: CertificateNames { uris, dns } })
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// CN=not-a-name, with the names DNS:Worker.Example, URI:spiffe://prod/worker, IP:127.0.0.1, DNS:*.pool.example.
    const NAMED: &str = include_str!("../../../tests/certificates/named.pem");
    /// CN=not-a-name alone.
    const UNNAMED: &str = include_str!("../../../tests/certificates/unnamed.pem");

    fn names(pem: &str) -> Option<CertificateNames> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        PeerCertificate::of(&[certificate]).map(|found| found.names)
    }

    #[test]
    fn the_alternative_names_count_and_the_common_name_does_not() {
        let named = names(NAMED).expect("a certificate");
        assert_eq!(named.uris, ["spiffe://prod/worker"]);
        assert_eq!(named.dns, ["Worker.Example", "*.pool.example"]);
        assert_eq!(names(UNNAMED).expect("a certificate"), CertificateNames::default());
    }

    #[test]
    fn what_is_no_certificate_names_nobody() {
        assert_eq!(PeerCertificate::of(&[]), None);
        assert_eq!(PeerCertificate::of(&[CertificateDer::from(vec![0x30, 0x03, 1, 1, 1])]), None);
    }
}
