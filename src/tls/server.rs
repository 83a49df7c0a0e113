//! The TLS settings of a server, read from its files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::process::{Uid, geteuid};
use rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, CertificateRevocationListDer},
    server::{
        NoServerSessionStorage, ProducesTickets, VerifierBuilderError, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::{
    expiry::{NamedCertificates, not_after},
    pem,
};
use crate::files::judged_for;

/// The protocol that is spoken over TLS.
const HTTP: &[u8] = b"http/1.1";

/// The files of a server's TLS settings. An empty path names no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate, and those of the authorities between it and a root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that verify the certificates of clients. Without it, clients are asked for none.
    pub client_ca: PathBuf,
    /// The revocation lists for the certificates of clients.
    pub crl: PathBuf,
}

impl ServerFiles {
    /// The files that are named.
    pub(super) fn named(&self) -> impl Iterator<Item = &Path> {
        let all = [&self.cert, &self.key, &self.client_ca, &self.crl];
        all.into_iter().map(PathBuf::as_path).filter(|path| !path.as_os_str().is_empty())
    }
}

/// A file that cannot be used, and the setting that names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} names {path}, which {why}", path = .path.display())]
pub struct ServerFault {
    /// Such as `server.tls_key`.
    pub setting: &'static str,
    pub path: PathBuf,
    pub why: String,
}

/// How the certificates of clients are judged: the bytes of the authorities and of the revocation lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    authorities: Vec<CertificateDer<'static>>,
    lists: Vec<CertificateRevocationListDer<'static>>,
}

/// What the files say.
pub(super) struct Content {
    key: CertifiedKey,
    pub(super) trust: Trust,
    pub(super) verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The certificate itself.
    pub(super) leaf: CertificateDer<'static>,
    /// When the first of the server's certificates ends to be valid, in seconds since 1970.
    pub(super) expires: u64,
    /// When the certificates of each file are valid.
    pub(super) named: Vec<NamedCertificates>,
}

/// Finds the first fault of the files for a command: root may judge the files of a coordinator that runs as another user.
///
/// # Errors
/// [`ServerFault`] when a file cannot be used.
pub fn check(files: &ServerFiles) -> Result<(), ServerFault> {
    Content::judge(files, judged_for).map(drop)
}

impl Content {
    /// Reads all files. Only root and the user of this process may change a file that gives rights.
    pub(super) fn read(files: &ServerFiles) -> Result<Self, ServerFault> {
        Self::judge(files, |_| geteuid())
    }

    /// Reads all files. Only root and the user that `user` gives for a file may change it if it gives rights.
    fn judge(files: &ServerFiles, user: impl Fn(&Path) -> Uid) -> Result<Self, ServerFault> {
        let provider = Arc::new(ring::default_provider());
        let (key, expires) = certified_key(files, &provider)?;
        let trust = trust(files, user)?;
        let verifier = verifier(files, &trust, provider)?;
        let leaf = key.cert[0].clone();
        let named = named(files, &key.cert, &trust)?;
        Ok(Self { key, trust, verifier, leaf, expires, named })
    }

    /// The settings of connections. Sessions are resumed by the tickets alone.
    pub(super) fn config(self, tickets: Arc<dyn ProducesTickets>) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has these versions");
        let builder = match self.verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(self.key)));
        config.alpn_protocols = vec![HTTP.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = tickets;
        config
    }
}

fn certified_key(
    files: &ServerFiles,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, u64), ServerFault> {
    let of_cert = |why| ServerFault { setting: "server.tls_cert", path: files.cert.clone(), why };
    let of_key = |why| ServerFault { setting: "server.tls_key", path: files.key.clone(), why };
    let chain = pem::certificates(&files.cert).map_err(of_cert)?;
    let malformed = || of_cert("has a malformed certificate".to_owned());
    let ends: Option<Vec<u64>> = chain.iter().map(|certificate| not_after(certificate)).collect();
    let expires = ends.and_then(|ends| ends.into_iter().min()).ok_or_else(malformed)?;
    let key = pem::key(&files.key).map_err(of_key)?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| of_key(format!("has a key that cannot be used: {error}")))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
            Ok((certified, expires))
        }
        Err(Error::InconsistentKeys(_)) => {
            let cert = files.cert.display();
            Err(of_key(format!(
                "is not the key of the first certificate in {cert} (server.tls_cert)"
            )))
        }
        Err(error) => Err(of_cert(format!("cannot be used: {error}"))),
    }
}

/// When the certificates of each file are valid.
fn named(
    files: &ServerFiles,
    chain: &[CertificateDer<'_>],
    trust: &Trust,
) -> Result<Vec<NamedCertificates>, ServerFault> {
    let mut named = Vec::new();
    for (setting, path, are_authorities, certificates) in [
        ("server.tls_cert", &files.cert, false, chain),
        ("server.tls_client_ca", &files.client_ca, true, &trust.authorities),
    ] {
        if !certificates.is_empty() {
            let of = NamedCertificates::of(setting, path, are_authorities, certificates);
            let fault = |why| ServerFault { setting, path: path.clone(), why };
            named.push(of.map_err(fault)?);
        }
    }
    Ok(named)
}

fn trust(files: &ServerFiles, user: impl Fn(&Path) -> Uid) -> Result<Trust, ServerFault> {
    let of_ca =
        |why| ServerFault { setting: "server.tls_client_ca", path: files.client_ca.clone(), why };
    let of_crl = |why| ServerFault { setting: "server.tls_crl", path: files.crl.clone(), why };
    let mut trust = Trust::default();
    if !files.client_ca.as_os_str().is_empty() {
        let user = user(&files.client_ca);
        let read = pem::all_guarded(&files.client_ca, "certificate", user);
        trust.authorities = read.map_err(of_ca)?;
    }
    if !files.crl.as_os_str().is_empty() {
        let read = pem::all_guarded(&files.crl, "revocation list", user(&files.crl));
        trust.lists = read.map_err(of_crl)?;
    }
    Ok(trust)
}

fn verifier(
    files: &ServerFiles,
    trust: &Trust,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, ServerFault> {
    if trust.authorities.is_empty() {
        return Ok(None);
    }
    let of_ca =
        |why| ServerFault { setting: "server.tls_client_ca", path: files.client_ca.clone(), why };
    let mut roots = RootCertStore::empty();
    for authority in &trust.authorities {
        roots.add(authority.clone()).map_err(|error| of_ca(format!("cannot be used: {error}")))?;
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(trust.lists.iter().cloned())
        // Callers may also prove who they are in other ways.
        .allow_unauthenticated()
        .build();
    built.map(Some).map_err(|error| match error {
        VerifierBuilderError::InvalidCrl(error) => ServerFault {
            setting: "server.tls_crl",
            path: files.crl.clone(),
            why: format!("has a revocation list that cannot be used: {error:?}"),
        },
        error => of_ca(format!("cannot be used: {error}")),
    })
}
