//! What a connection proves of the caller. Handlers find it with `HttpRequest::conn_data`.
//!
//! Guarantees: a [`PeerCertificate`] proves its names only while it holds: an authority of `server.tls_client_ca` issued
//! it, it is valid, and no list of `server.tls_crl` revokes it. It is judged again when it or an authority between ends,
//! and when the authorities or lists change. A [`PeerUid`] comes from the kernel.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::{
    access::{Broken, CertificateNames, TokenDigest},
    tls::{Before, ClientChain, Served, signed_part},
};

/// The certificate of the client at the other end.
pub struct PeerCertificate {
    /// Its alternative names. The common name of its subject does not count.
    pub names: CertificateNames,
    /// The digest of the part that its authority signed.
    pub digest: TokenDigest,
    chain: ClientChain,
}

/// The user id of the process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUid(pub u32);

impl PeerCertificate {
    /// The first certificate of the chain of a handshake, or of the session that it resumed; `None` if there is none, or
    /// one is malformed.
    pub fn of(
        chain: &[CertificateDer<'_>],
        served: Arc<Served>,
        before: Before,
        is_resumed: bool,
    ) -> Option<Self> {
        let first = chain.first()?;
        let (names, digest) = (names(first)?, TokenDigest::of_bytes(signed_part(first)?));
        Some(Self { names, digest, chain: ClientChain::new(chain, served, before, is_resumed)? })
    }

    /// Whether it proves its names at this time.
    pub fn holds(&self, wall_ms: u64) -> bool {
        Broken::CertificateWithoutEnd.is_active() || self.chain.holds(wall_ms)
    }

    /// Until when [`Self::holds`] says the same, unless authorities or lists change, in milliseconds since 1970.
    pub fn until_ms(&self, wall_ms: u64) -> u64 {
        self.chain.until_ms(wall_ms)
    }

    /// Resolves after the authorities or lists have changed.
    pub async fn trust_changed(&self) {
        self.chain.trust_changed().await;
    }
}

/// The alternative names of a certificate; `None` if it is malformed.
fn names(certificate: &CertificateDer<'_>) -> Option<CertificateNames> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let uris = certificate.valid_uri_names().map(str::to_owned).collect();
    let dns = certificate.valid_dns_names().map(str::to_owned).collect();
    Some(CertificateNames { uris, dns })
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
        super::names(&CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
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
        assert_eq!(super::names(&CertificateDer::from(vec![0x30, 0x03, 1, 1, 1])), None);
    }
}
