//! The servers with which a client has TLS sessions that it could resume.
//!
//! Guarantees: a session is resumed only if the certificate that began it would be accepted now. A handshake that resumes
//! a session verifies no certificate.
//!
//! Does not guarantee: that an open connection ends with the certificate of its server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    DigitallySignedStruct, Error, NamedGroup, SignatureScheme,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue,
        Tls13ClientSessionValue, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// The number of servers whose sessions are kept: as many as rustls keeps by default.
const MOST: usize = 256;

/// Verifies servers, and keeps the sessions with them.
#[derive(Debug)]
pub(super) struct KnownServers {
    verifier: Arc<WebPkiServerVerifier>,
    sessions: ClientSessionMemoryCache,
    chains: Mutex<HashMap<ServerName<'static>, Arc<[CertificateDer<'static>]>>>,
}

impl KnownServers {
    pub(super) fn new(verifier: Arc<WebPkiServerVerifier>) -> Self {
        let sessions = ClientSessionMemoryCache::new(MOST);
        Self { verifier, sessions, chains: Mutex::default() }
    }

    /// Whether a session with this server may be resumed.
    fn may_resume(&self, name: &ServerName<'_>) -> bool {
        let chain = {
            let chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
            chains.get(&name.to_owned()).cloned()
        };
        let Some([leaf, others @ ..]) = chain.as_deref() else { return false };
        self.verifier.verify_server_cert(leaf, others, name, &[], UnixTime::now()).is_ok()
    }
}

impl ServerCertVerifier for KnownServers {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(leaf, others, name, ocsp, now)?;
        let chain = std::iter::once(leaf).chain(others);
        let chain = chain.map(|certificate| certificate.clone().into_owned()).collect();
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if chains.len() >= MOST {
            // The next handshakes are full ones.
            chains.clear();
        }
        chains.insert(name.to_owned(), chain);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

impl ClientSessionStore for KnownServers {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(name, session);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(name).filter(|_| self.may_resume(name))
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.sessions.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(name, ticket);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions.take_tls13_ticket(name).filter(|_| self.may_resume(name))
    }
}
