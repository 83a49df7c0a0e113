//! The authorities and the certificate of a client, as their files are now.
//!
//! Guarantees: each handshake uses the files as they are then. As long as new files have a fault, for example a certificate
//! without its key, the old content stays in effect. A fault is told once for each change of the files. After a change, no
//! earlier session is resumed.
//!
//! Does not guarantee: that an open connection ends with the files with which it began.
//!
//! Assumes: a file that changes gets another time, size or inode.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustls::{
    DigitallySignedStruct, Error, NamedGroup, RootCertStore, SignatureScheme,
    client::{
        ClientSessionStore, ResolvesClientCert, Tls12ClientSessionValue, Tls13ClientSessionValue,
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::CertifiedKey,
};

use super::{
    known_servers::KnownServers,
    pem,
    stamp::{Stamp, stamp},
    trust::{Identity, Roots, TlsError, add_file, add_system},
};

/// Where the system's authorities usually are. `SSL_CERT_FILE` may name another file.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The files of a client, and their content.
#[derive(Debug)]
pub struct Followed {
    /// A file of authorities, if there is one.
    ca: Option<PathBuf>,
    /// Whether the system's authorities count.
    system: bool,
    /// The files of the certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
    state: Mutex<State>,
    /// Rises with each change that is in effect.
    number: AtomicU64,
}

#[derive(Debug)]
struct State {
    stamps: Vec<Option<Stamp>>,
    /// Whether these files are in effect.
    applied: bool,
    content: Content,
}

#[derive(Clone, Debug)]
struct Content {
    known: Arc<KnownServers>,
    key: Option<Arc<CertifiedKey>>,
}

impl Followed {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] when a file cannot be used, or there are no authorities.
    pub(super) fn open(roots: Roots<'_>, identity: Option<Identity<'_>>) -> Result<Self, TlsError> {
        let (ca, system) = match roots {
            Roots::System => (None, true),
            Roots::Only(path) => (Some(path.to_owned()), false),
            Roots::SystemAnd(path) => (Some(path.to_owned()), true),
        };
        let identity = identity.map(|Identity { cert, key }| (cert.to_owned(), key.to_owned()));
        let stamps = stamps(ca.as_deref(), system, identity.as_ref());
        let content = read(ca.as_deref(), system, identity.as_ref())?;
        let state = Mutex::new(State { stamps, applied: true, content });
        Ok(Self { ca, system, identity, state, number: AtomicU64::new(0) })
    }

    /// Reads the files again if one of them changed, and returns how often a change took effect so far. Blocks while it
    /// reads.
    pub fn follow(&self) -> u64 {
        let _ = self.content();
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    fn content(&self) -> Content {
        let (ca, identity) = (self.ca.as_deref(), self.identity.as_ref());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(ca, self.system, identity);
        let is_known = stamps == state.stamps;
        if is_known && state.applied {
            return state.content.clone();
        }
        state.stamps = stamps;
        match read(ca, self.system, identity) {
            Ok(content) => {
                (state.content, state.applied) = (content, true);
                self.number.fetch_add(1, Ordering::Relaxed);
                tracing::info!("the files for TLS changed, and are in effect");
            }
            Err(fault) => {
                state.applied = false;
                // A file may just be being written, so it is read again at the next look.
                if !is_known {
                    tracing::warn!(%fault, "the files for TLS changed and cannot be used; the former content stays");
                }
            }
        }
        state.content.clone()
    }
}

fn stamps(
    ca: Option<&Path>,
    system: bool,
    identity: Option<&(PathBuf, PathBuf)>,
) -> Vec<Option<Stamp>> {
    let own = identity.into_iter().flat_map(|(cert, key)| [cert.as_path(), key]);
    let named = ca.into_iter().chain(own).map(|path| stamp(path).ok());
    let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let system = system.then(|| {
        let usual = SYSTEM.map(PathBuf::from).into_iter();
        usual.chain(variable).map(|path| stamp(&path).ok()).collect::<Vec<_>>()
    });
    named.chain(system.into_iter().flatten()).collect()
}

fn read(
    ca: Option<&Path>,
    system: bool,
    identity: Option<&(PathBuf, PathBuf)>,
) -> Result<Content, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        add_file(&mut roots, path)?;
    }
    if system {
        let added = add_system(&mut roots);
        // The system may have none: the file is then enough.
        added.or_else(|fault| if ca.is_some() { Ok(()) } else { Err(fault) })?;
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = builder.build().map_err(|error| TlsError::System(error.to_string()))?;
    let key = identity.map(|(cert, key)| certified(cert, key, &provider)).transpose()?;
    Ok(Content { known: Arc::new(KnownServers::new(verifier)), key: key.map(Arc::new) })
}

fn certified(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let fault = |path: &Path, why| TlsError::Identity { path: path.to_owned(), why };
    let chain = pem::certificates(cert).map_err(|why| fault(cert, why))?;
    let private = pem::key(key).map_err(|why| fault(key, why))?;
    CertifiedKey::from_der(chain, private, provider).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            fault(key, format!("is not the key of the first certificate in {}", cert.display()))
        }
        error => fault(cert, format!("cannot be used: {error}")),
    })
}

impl ServerCertVerifier for Followed {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.content().known.verify_server_cert(leaf, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.content().known.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.content().known.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.content().known.supported_verify_schemes()
    }
}

impl ResolvesClientCert for Followed {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.content().key
    }

    fn has_certs(&self) -> bool {
        self.has_identity()
    }
}

impl ClientSessionStore for Followed {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.content().known.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.content().known.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.content().known.set_tls12_session(name, session);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.content().known.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.content().known.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.content().known.insert_tls13_ticket(name, ticket);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.content().known.take_tls13_ticket(name)
    }
}
