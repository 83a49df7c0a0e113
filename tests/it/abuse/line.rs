//! Connections of very many clients: as light as they can be, in plain text or by TLS.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustls::{
    ClientConfig, NamedGroup, RootCertStore,
    client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    version::TLS13,
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::support::{
    harness::{Connection, wire::request},
    tls::Certificates,
};

/// A connection, in plain text or not.
pub trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<L: AsyncRead + AsyncWrite + Send + Unpin> Line for L {}

/// How clients reach a coordinator.
#[derive(Clone, Debug)]
pub struct Dial {
    addr: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    /// The header that proves who calls; empty without one.
    authorization: String,
}

impl Dial {
    /// In plain text, by callers that prove nothing.
    pub fn plain(addr: SocketAddr) -> Self {
        Self { addr, tls: None, authorization: String::new() }
    }

    /// By TLS and with this token. Clients that had a connection before show a ticket of it, of which they keep so many
    /// together.
    pub fn secure(
        addr: SocketAddr,
        certificates: &Certificates,
        token: &str,
        tickets: usize,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(certificates.path("ca.pem"));
        roots.add(ca.expect("a certificate")).expect("an authority");
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has it")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::store(Arc::new(Tickets::at_most(tickets)));
        Self { addr, tls: Some(Arc::new(config)), authorization: format!("Bearer {token}") }
    }

    /// Whether a handshake may take so long that the coordinator ends it.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    pub async fn connect(&self) -> io::Result<Box<dyn Line>> {
        let stream = TcpStream::connect(self.addr).await?;
        let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::from(self.addr.ip());
        Ok(Box::new(TlsConnector::from(config.clone()).connect(name, stream).await?))
    }

    /// A connection that reads any answer. It takes more memory.
    pub async fn open(&self) -> io::Result<Connection<Box<dyn Line>>> {
        Ok(Connection::on(self.connect().await?))
    }

    pub fn headers(&self) -> Vec<(&str, &str)> {
        let shown = ("Authorization", self.authorization.as_str());
        if self.authorization.is_empty() { Vec::new() } else { vec![shown] }
    }

    /// One call whose answer is short; its status and the beginning of what the server said.
    pub async fn call(
        &self,
        line: &mut dyn Line,
        path: &str,
        body: &Value,
    ) -> io::Result<(u16, String)> {
        let bytes = request("POST", path, &self.headers(), body.to_string().as_bytes());
        line.write_all(&bytes).await?;
        line.flush().await?;
        let (mut said, mut length) = (Vec::new(), None);
        while length.is_none_or(|length| said.len() < length) {
            if line.read_buf(&mut said).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // The length is in the head.
            let text = String::from_utf8_lossy(&said).to_ascii_lowercase();
            length = text.split_once("\r\n\r\n").map(|(head, _)| {
                let told = head.split_once("content-length: ").expect("a length").1;
                let told = told.lines().next().and_then(|told| told.trim().parse::<usize>().ok());
                head.len() + 4 + told.expect("a number")
            });
        }
        let text = String::from_utf8_lossy(&said).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.expect("a status"), text))
    }
}

/// The tickets of all clients. A client takes any: they are good for one handshake each.
#[derive(Debug)]
struct Tickets {
    kept: Mutex<VecDeque<Tls13ClientSessionValue>>,
    most: usize,
}

impl Tickets {
    fn at_most(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Tls13ClientSessionValue>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.lock();
        if kept.len() < self.most {
            kept.push_back(ticket);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().pop_front()
    }
}
