//! The certificate that a server shows now. It is replaced while the server runs.
//!
//! Guarantees: a connection is made with files that fit each other. As long as new files have a fault, the old ones
//! stay in effect. A fault is reported once for each change of the files. A client's ticket is not accepted once the
//! authorities or the revocation lists have changed: resuming a session does not verify the certificate again.
//!
//! Does not guarantee: that a connection ends when its client's certificate is revoked or expires. The certificate
//! proves nothing from then on: [`super::ClientChain`] judges it again.
//!
//! Assumes: a file that changes gets another time, size or inode.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::ring::Ticketer,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{ProducesTickets, danger::ClientCertVerifier},
};
use tokio::sync::Notify;
use webpki::EndEntityCert;

use super::{
    expiry::NamedCertificates,
    server::{Content, ServerFault, ServerFiles, Trust},
    stamp::{Stamp, stamp},
};
use crate::files::rights_on_the_way;

/// The TLS settings of a server, as its files are now.
pub struct Served {
    files: ServerFiles,
    current: ArcSwap<ServerConfig>,
    judge: ArcSwap<Judge>,
    judge_changed: Notify,
    seen: Mutex<Seen>,
}

/// Judges the certificates of clients.
struct Judge {
    /// Rises with each change of the authorities or lists.
    number: u64,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// What a look at the files found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The files are as they were, or their fault is known already.
    Nothing,
    /// They changed, and are in effect.
    Applied,
    /// They changed and cannot be used. What was in effect stays.
    Refused(ServerFault),
}

/// What was last seen of the files.
struct Seen {
    stamps: Vec<Way>,
    /// Whether these files are in effect.
    applied: bool,
    trust: Trust,
    tickets: Arc<dyn ProducesTickets>,
    leaf: CertificateDer<'static>,
    expires: u64,
    named: Vec<NamedCertificates>,
}

/// What tells a file, and the directories and links on the way to it, from what was there before; `None` if there is none.
type Way = (Option<Stamp>, Option<Vec<[u32; 2]>>);

impl Served {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ServerFault`] when a file cannot be used.
    pub fn open(files: ServerFiles) -> Result<Self, ServerFault> {
        let stamps = stamps(&files);
        let content = Content::read(&files)?;
        let (trust, leaf, expires) = (content.trust.clone(), content.leaf.clone(), content.expires);
        let (tickets, named) = (tickets(&files)?, content.named.clone());
        let judge = Judge { number: 1, verifier: content.verifier.clone() };
        let current = ArcSwap::from_pointee(content.config(tickets.clone()));
        let seen = Mutex::new(Seen { stamps, applied: true, trust, tickets, leaf, expires, named });
        let (judge, judge_changed) = (ArcSwap::from_pointee(judge), Notify::new());
        Ok(Self { files, current, judge, judge_changed, seen })
    }

    /// The number of the authorities and lists that judge the certificates of clients now.
    ///
    /// A connection that reads it before [`Self::config`] is judged by these or by later ones.
    #[must_use]
    pub fn trust(&self) -> u64 {
        self.judge.load().number
    }

    /// Resolves once other authorities or lists than those with the number `seen` are in effect.
    pub async fn trust_changed(&self, seen: u64) {
        loop {
            let changed = self.judge_changed.notified();
            if self.trust() != seen {
                return;
            }
            changed.await;
        }
    }

    /// Whether the authorities and lists in effect accept this chain of a client at this time.
    #[must_use]
    pub fn trusts(&self, chain: &[CertificateDer<'_>], wall_ms: u64) -> bool {
        let judge = self.judge.load();
        let (Some(verifier), [leaf, others @ ..]) = (&judge.verifier, chain) else { return false };
        let now = UnixTime::since_unix_epoch(Duration::from_millis(wall_ms));
        verifier.verify_client_cert(leaf, others, now).is_ok()
    }

    /// The settings for a new connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// When the certificate in effect, or one of its authorities, ends to be valid, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> u64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).expires
    }

    /// When the certificates in effect are valid.
    #[must_use]
    pub fn named(&self) -> Vec<NamedCertificates> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).named.clone()
    }

    /// Whether the certificate in effect is for this host: a name, or an IP address.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (Ok(leaf), Ok(name)) =
            (EndEntityCert::try_from(&seen.leaf), ServerName::try_from(host))
        else {
            return false;
        };
        leaf.verify_is_valid_for_subject_name(&name).is_ok()
    }

    /// Reads the files again if one of them changed. Blocks while it reads.
    pub fn follow(&self) -> Change {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.files);
        let is_known = stamps == seen.stamps;
        if is_known && seen.applied {
            return Change::Nothing;
        }
        seen.stamps = stamps;
        match self.apply(&mut seen) {
            Ok(()) => Change::Applied,
            // It may be that a file could not be read just then, so it is read again at the next look.
            Err(_) if is_known => Change::Nothing,
            Err(fault) => Change::Refused(fault),
        }
    }

    /// Reads the files again, whether they changed or not. Blocks while it reads.
    ///
    /// # Errors
    /// [`ServerFault`] when a file cannot be used. What was in effect stays.
    pub fn reload(&self) -> Result<(), ServerFault> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.stamps = stamps(&self.files);
        self.apply(&mut seen)
    }

    fn apply(&self, seen: &mut Seen) -> Result<(), ServerFault> {
        seen.applied = false;
        let content = Content::read(&self.files)?;
        let is_other = content.trust != seen.trust;
        if is_other {
            seen.tickets = tickets(&self.files)?;
            seen.trust = content.trust.clone();
        }
        (seen.leaf, seen.expires) = (content.leaf.clone(), content.expires);
        let verifier = content.verifier.clone();
        seen.named.clone_from(&content.named);
        self.current.store(Arc::new(content.config(seen.tickets.clone())));
        if is_other {
            // After the settings: a connection that begins in between is judged once more.
            self.judge.store(Arc::new(Judge { number: self.trust() + 1, verifier }));
            self.judge_changed.notify_waiters();
        }
        seen.applied = true;
        Ok(())
    }
}

fn tickets(files: &ServerFiles) -> Result<Arc<dyn ProducesTickets>, ServerFault> {
    Ticketer::new().map_err(|error| ServerFault {
        setting: "server.tls_cert",
        path: files.cert.clone(),
        why: format!("cannot be used, as no keys for tickets can be made: {error}"),
    })
}

fn stamps(files: &ServerFiles) -> Vec<Way> {
    files.named().map(|path| (stamp(path).ok(), rights_on_the_way(path))).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

    use tempfile::TempDir;

    use super::*;

    /// A directory with `a.pem`, `a.key`, `b.pem` and `b.key`.
    fn pairs() -> TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a", "b"] {
            let made = format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
                 -keyout {name}.key -out {name}.pem"
            );
            let ran = Command::new("openssl").args(made.split(' ')).current_dir(&dir).output();
            assert!(ran.expect("openssl").status.success());
        }
        dir
    }

    #[test]
    fn half_of_a_pair_is_reported_once_and_changes_nothing() {
        let dir = pairs();
        let put = |from: &str, to: &str| {
            fs::copy(dir.path().join(from), dir.path().join("new")).expect("copied");
            fs::rename(dir.path().join("new"), dir.path().join(to)).expect("renamed");
        };
        put("a.pem", "cert");
        put("a.key", "key");
        let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
        let files = ServerFiles { cert, key, client_ca: "".into(), crl: "".into() };
        let served = Served::open(files).expect("a pair");
        let first = served.config();
        assert_eq!(served.follow(), Change::Nothing);
        put("b.pem", "cert");
        let Change::Refused(fault) = served.follow() else { panic!("half a pair is applied") };
        assert!(
            fault.setting == "server.tls_key" && fault.why.contains("is not the key"),
            "{fault}"
        );
        assert_eq!(served.follow(), Change::Nothing, "it is known");
        assert_eq!(served.reload(), Err(fault), "who asks is told");
        assert_eq!(served.follow(), Change::Nothing, "it is known");
        assert!(Arc::ptr_eq(&first, &served.config()));
        put("b.key", "key");
        assert_eq!(served.follow(), Change::Applied);
        let second = served.config();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first.ticketer, &second.ticketer));
    }

    #[test]
    fn tickets_count_until_other_authorities_do() {
        let dir = pairs();
        let [cert, key, client_ca] = ["a.pem", "a.key", "ca"].map(|file| dir.path().join(file));
        fs::copy(&cert, &client_ca).expect("copied");
        let served = Served::open(ServerFiles { cert, key, client_ca, crl: "".into() });
        let served = served.expect("a pair");
        let first = served.config();
        served.reload().expect("the same");
        assert!(Arc::ptr_eq(&first.ticketer, &served.config().ticketer));
        fs::copy(dir.path().join("b.pem"), dir.path().join("ca")).expect("copied");
        assert_eq!(served.follow(), Change::Applied);
        assert!(!Arc::ptr_eq(&first.ticketer, &served.config().ticketer));
    }

    #[test]
    fn authorities_that_others_could_replace_are_refused() {
        let dir = pairs();
        let [cert, key, client_ca] = ["a.pem", "a.key", "ca"].map(|file| dir.path().join(file));
        fs::copy(&cert, &client_ca).expect("copied");
        let set_mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        let files = ServerFiles { cert, key, client_ca: client_ca.clone(), crl: "".into() };
        let served = Served::open(files.clone()).expect("files that nobody else may write");
        for (path, odd, right) in [(client_ca.as_path(), 0o666, 0o644), (dir.path(), 0o777, 0o755)]
        {
            set_mode(path, odd);
            let refused = Served::open(files.clone()).err().map(|fault| fault.setting);
            assert_eq!(refused, Some("server.tls_client_ca"), "{path:?}");
            assert!(matches!(served.follow(), Change::Refused(_)), "{path:?}");
            set_mode(path, right);
            assert_eq!(served.follow(), Change::Applied, "{path:?}");
        }
    }
}
