//! The authorities and the certificate of a client, as their files are now.
//!
//! Guarantees: a change of the files is in effect within 2 s. A separate thread looks at them, so a file system that does
//! not answer holds up no call: the former content stays. As long as new files have a fault, for example a certificate
//! without its key, the former content stays too. A fault is told once for each change of the files. After a change, no
//! earlier session is resumed.
//!
//! Does not guarantee: that an open connection ends with the files with which it began.
//!
//! Assumes: a file that changes gets another time, size or inode.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
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

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The content of a client's files, which are followed for as long as this exists.
#[derive(Debug)]
pub struct Followed {
    current: Arc<Current>,
    has_identity: bool,
    /// Its end ends the thread that follows the files.
    _follows: mpsc::Sender<()>,
}

#[derive(Debug)]
struct Current {
    content: RwLock<Arc<Content>>,
    /// Rises with each change that is in effect.
    number: AtomicU64,
}

#[derive(Debug)]
struct Content {
    known: KnownServers,
    key: Option<Arc<CertifiedKey>>,
}

/// The files of a client.
struct Files {
    /// A file of authorities, if there is one.
    ca: Option<PathBuf>,
    /// Whether the system's authorities count.
    system: bool,
    /// The files of the certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Followed {
    /// Reads the files, and follows them from now on.
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
        let files = Files { ca, system, identity };
        let (stamps, has_identity) = (files.stamps(), files.identity.is_some());
        let content = RwLock::new(Arc::new(files.read()?));
        let current = Arc::new(Current { content, number: AtomicU64::new(0) });
        let (_follows, ended) = mpsc::channel();
        let changed = current.clone();
        let follow = move || files.follow(stamps, &changed, &ended);
        if let Err(error) = std::thread::Builder::new().name("tls-files".into()).spawn(follow) {
            tracing::error!(%error, "no thread can be started to follow the files for TLS");
        }
        Ok(Self { current, has_identity, _follows })
    }

    /// How often a change of the files took effect so far.
    pub fn changes(&self) -> u64 {
        self.current.number.load(Ordering::Acquire)
    }

    pub(super) fn has_identity(&self) -> bool {
        self.has_identity
    }

    fn content(&self) -> Arc<Content> {
        self.current.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Files {
    /// Looks at the files again and again, until their client has ended.
    fn follow(&self, mut known: Vec<Option<Stamp>>, current: &Current, ended: &mpsc::Receiver<()>) {
        let mut is_applied = true;
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let stamps = self.stamps();
            let is_known = stamps == known;
            if is_known && is_applied {
                continue;
            }
            known = stamps;
            let read = self.read();
            is_applied = read.is_ok();
            match read {
                Ok(content) => {
                    let mut former =
                        current.content.write().unwrap_or_else(PoisonError::into_inner);
                    *former = Arc::new(content);
                    drop(former);
                    current.number.fetch_add(1, Ordering::Release);
                    tracing::info!("the files for TLS changed, and are in effect");
                }
                // A file may just be being written, so it is read again at the next look.
                Err(_) if is_known => {}
                Err(fault) => tracing::warn!(
                    %fault,
                    "the files for TLS changed and cannot be used; the former content stays"
                ),
            }
        }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        let own = self.identity.iter().flat_map(|(cert, key)| [cert.as_path(), key]);
        let named = self.ca.as_deref().into_iter().chain(own).map(|path| stamp(path).ok());
        let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let system = self.system.then(|| {
            let usual = SYSTEM.map(PathBuf::from).into_iter();
            usual.chain(variable).map(|path| stamp(&path).ok()).collect::<Vec<_>>()
        });
        named.chain(system.into_iter().flatten()).collect()
    }

    fn read(&self) -> Result<Content, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca {
            add_file(&mut roots, path)?;
        }
        if self.system {
            let added = add_system(&mut roots);
            // The system may have none: the file is then enough.
            added.or_else(|fault| if self.ca.is_some() { Ok(()) } else { Err(fault) })?;
        }
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let verifier = builder.build().map_err(|error| TlsError::System(error.to_string()))?;
        let key = self.identity.as_ref();
        let key = key.map(|(cert, key)| certified(cert, key, &provider)).transpose()?;
        Ok(Content { known: KnownServers::new(verifier), key: key.map(Arc::new) })
    }
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
        let known = &self.content().known;
        let verified = known.verifier.verify_server_cert(leaf, others, name, ocsp, now)?;
        known.note(name, leaf, others);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.content().known.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.content().known.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.content().known.verifier.supported_verify_schemes()
    }
}

impl ResolvesClientCert for Followed {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.content().key.clone()
    }

    fn has_certs(&self) -> bool {
        self.has_identity()
    }
}

impl ClientSessionStore for Followed {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.content().known.sessions.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.content().known.sessions.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.content().known.sessions.set_tls12_session(name, session);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let known = &self.content().known;
        known.sessions.tls12_session(name).filter(|_| known.may_resume(name))
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.content().known.sessions.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.content().known.sessions.insert_tls13_ticket(name, ticket);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let known = &self.content().known;
        known.sessions.take_tls13_ticket(name).filter(|_| known.may_resume(name))
    }
}
