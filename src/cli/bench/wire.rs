//! A minimal HTTP/1.1 client: one request at a time on one keep-alive connection.
//!
//! Guarantees
//! - One write and, for an answer that fits the buffer, one read per request; no allocation once
//!   the buffers have grown.
//! - An answer is complete: its length is taken from `content-length`, or its chunks are joined.
//!
//! Does not guarantee
//! - A bound on the time of a call: the driver bounds whole phases.
//!
//! Assumes
//! - A plain-text server on the loopback interface; no redirects, no compression, no pipelining.

use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How many header fields of an answer are looked at; actix-web sends three to six.
const MAX_HEADERS: usize = 32;
/// The largest answer taken: 10 000 verdicts or 1 000 grants are about 1 MiB.
const MAX_ANSWER: usize = 64 << 20;
/// How much is read at once.
const READ_AT_LEAST: usize = 16 << 10;
/// Room for the digits of `content-length` in a prebuilt head.
const LENGTH_DIGITS: usize = 8;

/// What can go wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The socket failed.
    #[error("connection: {0}")]
    Io(#[from] std::io::Error),
    /// The server closed the connection in the middle of an answer, or instead of it.
    #[error("connection closed by the server after {0} bytes of an answer")]
    Closed(usize),
    /// The answer is not HTTP/1.1 as this client knows it.
    #[error("malformed answer: {0}")]
    Malformed(String),
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The socket address, on the loopback interface.
    pub address: SocketAddr,
}

impl Target {
    /// Reads `http://HOST:PORT`; every address that HOST stands for must be a loopback one.
    ///
    /// # Errors
    /// When the text has another form, the name cannot be resolved, or it leads off this machine:
    /// load is put on one's own machine only, and several workloads compare the two clocks.
    pub fn parse(url: &str) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            anyhow::anyhow!("{url}: bench speaks plain HTTP: give http://HOST:PORT")
        })?;
        let authority = rest.trim_end_matches('/');
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        let address = with_port
            .to_socket_addrs()
            .map_err(|error| anyhow::anyhow!("{url}: {error}"))?
            .next()
            .ok_or_else(|| anyhow::anyhow!("{url}: no address"))?;
        anyhow::ensure!(
            address.ip().is_loopback(),
            "{url} is not on this machine: bench puts load on the loopback interface only"
        );
        Ok(Self { address })
    }

    /// The head of a POST to `path`, ready to be filled.
    pub fn post(&self, path: &str) -> Template {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length:{:LENGTH_DIGITS$}\r\n\r\n",
            self.address, "",
        );
        Template { head: head.into_bytes() }
    }

    /// A whole GET request.
    pub fn get(&self, path_and_query: &str) -> Vec<u8> {
        format!("GET {path_and_query} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address).into_bytes()
    }
}

/// A prebuilt head: each request is two copies and a number.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<u8>,
}

impl Template {
    /// Makes `out` a whole request whose body is what `write_body` appends.
    pub fn fill(&self, out: &mut Vec<u8>, write_body: impl FnOnce(&mut Vec<u8>)) {
        out.clear();
        out.extend_from_slice(&self.head);
        write_body(out);
        let length = out.len() - self.head.len();
        let digits_at = self.head.len() - 4 - LENGTH_DIGITS;
        let mut digits = &mut out[digits_at..digits_at + LENGTH_DIGITS];
        // Leading blanks are optional white space (RFC 9110 §5.5); the room suffices up to 99 MB.
        let _ = write!(digits, "{length:>LENGTH_DIGITS$}");
    }
}

/// An answer, borrowed from its connection.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// The body, chunks joined.
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// The body as text; empty when it is not UTF-8.
    pub fn text(&self) -> &'a str {
        std::str::from_utf8(self.body).unwrap_or_default()
    }
}

/// How the body of an answer is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// The parsed head of an answer.
#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    /// Where the body begins in the inbox.
    body_at: usize,
    framing: Framing,
    keep_alive: bool,
}

impl Head {
    /// `None` while more bytes are needed.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut fields);
        let body_at = match response.parse(bytes) {
            Ok(httparse::Status::Complete(at)) => at,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(WireError::Malformed(error.to_string())),
        };
        let status = response.code.unwrap_or(0);
        let mut head = Self { status, body_at, framing: Framing::Length(0), keep_alive: true };
        for field in response.headers.iter() {
            let name = field.name;
            if name.eq_ignore_ascii_case("content-length") {
                let length = std::str::from_utf8(field.value).ok().and_then(|it| it.parse().ok());
                head.framing = Framing::Length(
                    length.ok_or_else(|| WireError::Malformed("content-length".to_owned()))?,
                );
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                head.framing = Framing::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                head.keep_alive = !field.value.eq_ignore_ascii_case(b"close");
            }
        }
        Ok(Some(head))
    }
}

/// One keep-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    inbox: Vec<u8>,
    joined: Vec<u8>,
    keep_alive: bool,
}

impl Connection {
    /// Connects, with `TCP_NODELAY`.
    pub async fn open(target: &Target) -> Result<Self, WireError> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let inbox = Vec::with_capacity(READ_AT_LEAST);
        Ok(Self { stream, inbox, joined: Vec::new(), keep_alive: true })
    }

    /// Whether the server will take another request here.
    pub fn is_open(&self) -> bool {
        self.keep_alive
    }

    /// Sends one whole request and waits for its whole answer.
    pub async fn call(&mut self, request: &[u8]) -> Result<Answer<'_>, WireError> {
        self.inbox.clear();
        self.stream.write_all(request).await?;
        let head = self.read_head().await?;
        self.keep_alive = head.keep_alive;
        match head.framing {
            Framing::Length(length) => {
                let end = head.body_at + length;
                while self.inbox.len() < end {
                    self.read_some(end).await?;
                }
                if self.inbox.len() > end {
                    return Err(WireError::Malformed("bytes after the answer".to_owned()));
                }
                Ok(Answer { status: head.status, body: &self.inbox[head.body_at..end] })
            }
            Framing::Chunked => {
                self.joined.clear();
                let mut chunks = Chunks::default();
                let mut at = head.body_at;
                loop {
                    chunks.push(&self.inbox[at..], &mut self.joined)?;
                    at = self.inbox.len();
                    if chunks.is_done() {
                        break;
                    }
                    self.read_some(at + READ_AT_LEAST).await?;
                }
                Ok(Answer { status: head.status, body: &self.joined })
            }
        }
    }

    /// Sends one request; gives only the status of its answer.
    pub async fn status(&mut self, request: &[u8]) -> Result<u16, WireError> {
        Ok(self.call(request).await?.status)
    }

    /// Sends a request whose answer is a stream; gives the socket, what came with the head, and
    /// the status.
    pub async fn into_stream(
        mut self,
        request: &[u8],
    ) -> Result<(TcpStream, Vec<u8>, u16), WireError> {
        self.inbox.clear();
        self.stream.write_all(request).await?;
        let head = self.read_head().await?;
        if head.status == 200 && head.framing != Framing::Chunked {
            return Err(WireError::Malformed("a stream that is not chunked".to_owned()));
        }
        self.inbox.drain(..head.body_at);
        Ok((self.stream, self.inbox, head.status))
    }

    async fn read_head(&mut self) -> Result<Head, WireError> {
        loop {
            self.read_some(0).await?;
            if let Some(head) = Head::parse(&self.inbox)? {
                return Ok(head);
            }
        }
    }

    /// Reads once, into a buffer with room for `expected` bytes in all.
    async fn read_some(&mut self, expected: usize) -> Result<(), WireError> {
        let room = expected.saturating_sub(self.inbox.len()).max(READ_AT_LEAST);
        if self.inbox.len() + room > MAX_ANSWER {
            return Err(WireError::Malformed(format!("an answer above {MAX_ANSWER} bytes")));
        }
        self.inbox.reserve(room);
        if self.stream.read_buf(&mut self.inbox).await? == 0 {
            return Err(WireError::Closed(self.inbox.len()));
        }
        Ok(())
    }
}

/// Joins the chunks of a `transfer-encoding: chunked` body as they arrive.
#[derive(Debug, Default)]
pub struct Chunks {
    state: ChunkState,
    /// The size line so far; a few bytes.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    Data(usize),
    /// The line end after the data.
    DataEnd,
    /// The empty line after the last chunk (trailers are skipped).
    Trailer,
    Done,
}

/// A size line: up to 16 hexadecimal digits and a short extension.
const MAX_SIZE_LINE: usize = 256;

impl Chunks {
    /// Whether the last chunk has come.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Takes the next bytes of the connection and appends the data in them to `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        while !bytes.is_empty() && self.state != ChunkState::Done {
            if let ChunkState::Data(left) = self.state {
                let take = left.min(bytes.len());
                out.extend_from_slice(&bytes[..take]);
                bytes = &bytes[take..];
                self.state = match left - take {
                    0 => ChunkState::DataEnd,
                    rest => ChunkState::Data(rest),
                };
            } else {
                let (byte, rest) = (bytes[0], &bytes[1..]);
                bytes = rest;
                if byte == b'\n' {
                    self.end_of_line()?;
                } else if byte != b'\r' {
                    self.line.push(byte);
                }
                if self.line.len() > MAX_SIZE_LINE {
                    return Err(WireError::Malformed("chunk size line".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn end_of_line(&mut self) -> Result<(), WireError> {
        self.state = match self.state {
            ChunkState::Size => {
                let text = std::str::from_utf8(&self.line).unwrap_or_default();
                let digits = text.split(';').next().unwrap_or_default().trim();
                match usize::from_str_radix(digits, 16) {
                    Ok(0) => ChunkState::Trailer,
                    Ok(size) => ChunkState::Data(size),
                    Err(_) => return Err(WireError::Malformed(format!("chunk size {text:?}"))),
                }
            }
            ChunkState::Trailer if !self.line.is_empty() => ChunkState::Trailer,
            ChunkState::Trailer | ChunkState::Done => ChunkState::Done,
            ChunkState::DataEnd | ChunkState::Data(_) => ChunkState::Size,
        };
        self.line.clear();
        Ok(())
    }
}
