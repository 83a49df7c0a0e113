//! Certificates, made by `openssl` for the occasion, and fronts that speak TLS for a server that does not.

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tempfile::TempDir;
use tenure::clock::{Clock as _, SystemClock, rfc3339};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// How a certificate is made.
const NEW: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
/// What `openssl ca` needs to revoke certificates.
const REVOKING: &str = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=number\ndefault_md=sha256\n\
                        default_crl_days=2\ncrl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid\n";

/// What `openssl ca` needs to issue certificates that last for seconds.
const ISSUING: &str = "[ca]\ndefault_ca=d\n[d]\ndatabase=issued.txt\nnew_certs_dir=.\nrand_serial=yes\n\
                       default_md=sha256\npolicy=p\ncopy_extensions=copy\nunique_subject=no\n\
                       [p]\ncommonName=supplied\n[leaf]\nbasicConstraints=critical,CA:FALSE\n\
                       [authority]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n\
                       subjectKeyIdentifier=hash\n";

/// `ca.pem` is an authority, and `stranger.pem` one that issued nothing. Of the certificates by the first, `server.pem`
/// is for 127.0.0.1, `elsewhere.pem` for another name and `client.pem` for a client.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    pub fn make() -> Self {
        let made = Self(tempfile::tempdir().expect("a directory"));
        for name in ["ca", "stranger"] {
            made.openssl(&format!("{NEW} -subj /CN={name} -keyout {name}.key -out {name}.pem"));
        }
        let issued = [
            ("server", "IP:127.0.0.1"),
            ("elsewhere", "DNS:elsewhere.example"),
            ("client", "DNS:client"),
        ];
        for (name, who) in issued {
            made.issue(name, who);
        }
        made
    }

    /// Another certificate by the authority.
    pub fn issue(&self, name: &str, who: &str) {
        let signed = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE";
        let files = format!("-keyout {name}.key -out {name}.pem");
        let address = format!("-addext subjectAltName={who}");
        self.openssl(&format!("{NEW} -subj /CN={name} {signed} {address} {files}"));
    }

    /// A certificate by the authority of this name that begins an hour ago and ends after some seconds; `who` is empty for
    /// one of an authority. Its file also has the certificate of an authority that is not the root. Returns its end, in
    /// milliseconds since 1970.
    pub fn issue_for(&self, name: &str, who: &str, by: &str, seconds: u64) -> u64 {
        if !self.path("issue.cnf").exists() {
            std::fs::write(self.path("issue.cnf"), ISSUING).expect("written");
            std::fs::write(self.path("issued.txt"), "").expect("written");
        }
        let begin = SystemClock::new().wall_ms() - 3_600_000;
        let end = begin / 1000 * 1000 + 3_600_000 + seconds * 1000;
        let named =
            if who.is_empty() { String::new() } else { format!(" -addext subjectAltName={who}") };
        let new = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        self.openssl(&format!("{new} -subj /CN={name}{named} -keyout {name}.key -out {name}.csr"));
        let kind = if who.is_empty() { "authority" } else { "leaf" };
        let (first, last) = (asn1(begin), asn1(end));
        self.openssl(&format!(
            "ca -batch -notext -config issue.cnf -extensions {kind} -cert {by}.pem -keyfile {by}.key -in {name}.csr \
             -out {name}.pem -startdate {first} -enddate {last}"
        ));
        if by != "ca" {
            let chain = [name, by].map(|name| std::fs::read(self.path(&format!("{name}.pem"))));
            let chain: Vec<Vec<u8>> = chain.into_iter().map(|file| file.expect("made")).collect();
            std::fs::write(self.path(&format!("{name}.pem")), chain.concat()).expect("written");
        }
        end
    }

    /// Writes `crl.pem`, the authority's list of revoked certificates, to which these belong from now on.
    pub fn revoke(&self, names: &[&str]) {
        let write = |file, text| std::fs::write(self.path(file), text).expect("written");
        if !self.path("ca.cnf").exists() {
            write("ca.cnf", REVOKING);
            write("number", "01\n");
            write("index.txt", "");
        }
        let by = "ca -config ca.cnf -cert ca.pem -keyfile ca.key";
        for name in names {
            self.openssl(&format!("{by} -revoke {name}.pem"));
        }
        self.openssl(&format!("{by} -gencrl -out crl.new"));
        std::fs::rename(self.path("crl.new"), self.path("crl.pem")).expect("renamed");
    }

    /// Puts a copy of one file in the place of another, at once.
    pub fn replace(&self, file: &str, by: &str) {
        std::fs::copy(self.path(by), self.path("copy")).expect("copied");
        std::fs::rename(self.path("copy"), self.path(file)).expect("renamed");
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let ran = command.args(arguments.split(' ')).current_dir(self.0.path()).output();
        let ran = ran.expect("openssl; `make debian` fetches it");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// What a server speaks TLS with that shows the certificate of this name.
    pub fn acceptor(&self, name: &str) -> TlsAcceptor {
        let chain = CertificateDer::from_pem_file(self.path(&format!("{name}.pem")));
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![chain.expect("a certificate")], key)
            .expect("a pair");
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A time as certificates have it.
fn asn1(wall_ms: u64) -> String {
    let digits: String = rfc3339(wall_ms).chars().filter(char::is_ascii_digit).collect();
    format!("{}Z", &digits[2..14])
}

/// Speaks TLS for a server, in a thread of its own that ends with the process.
#[derive(Debug)]
pub struct Front {
    pub addr: SocketAddr,
    heard: Arc<AtomicU64>,
}

impl Front {
    /// In front of `upstream`, which need not listen yet, with the certificate of this name.
    pub fn start(certificates: &Certificates, name: &str, upstream: SocketAddr) -> Self {
        let acceptor = certificates.acceptor(name);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("bound");
        listener.set_nonblocking(true).expect("a socket");
        let heard = Arc::new(AtomicU64::new(0));
        let counter = heard.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(listener, acceptor, upstream, counter));
        });
        Self { addr, heard }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.addr)
    }

    /// How many connections told it something.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    upstream: SocketAddr,
    heard: Arc<AtomicU64>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, heard) = (acceptor.clone(), heard.clone());
        tokio::spawn(async move {
            let Ok(mut outside) = acceptor.accept(socket).await else { return };
            let Ok(mut inside) = TcpStream::connect(upstream).await else { return };
            heard.fetch_add(1, Ordering::SeqCst);
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        });
    }
}
