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
    client::{ClientSessionMemoryCache, WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// The number of servers whose sessions are kept: as many as rustls keeps by default.
const MOST: usize = 256;

/// Verifies servers, and keeps the sessions with them.
#[derive(Debug)]
pub(super) struct KnownServers {
    pub(super) verifier: Arc<WebPkiServerVerifier>,
    pub(super) sessions: ClientSessionMemoryCache,
    chains: Mutex<HashMap<ServerName<'static>, Arc<[CertificateDer<'static>]>>>,
}

impl KnownServers {
    pub(super) fn new(verifier: Arc<WebPkiServerVerifier>) -> Self {
        let sessions = ClientSessionMemoryCache::new(MOST);
        Self { verifier, sessions, chains: Mutex::default() }
    }

    /// Remembers the certificates with which a server proved its name.
    pub(super) fn note(
        &self,
        name: &ServerName<'_>,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
    ) {
        let chain = std::iter::once(leaf).chain(others);
        let chain = chain.map(|certificate| certificate.clone().into_owned()).collect();
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if chains.len() >= MOST {
            // The next handshakes are full ones.
            chains.clear();
        }
        chains.insert(name.to_owned(), chain);
    }

    /// Whether a session with this server may be resumed.
    pub(super) fn may_resume(&self, name: &ServerName<'_>) -> bool {
        let chain = {
            let chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
            chains.get(&name.to_owned()).cloned()
        };
        let Some([leaf, others @ ..]) = chain.as_deref() else { return false };
        self.verifier.verify_server_cert(leaf, others, name, &[], UnixTime::now()).is_ok()
    }
}
