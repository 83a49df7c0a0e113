//! HTTP/1.1 by hand: what is sent is what the test says, and a connection can be dropped at any moment.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(there, _)| there == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {} {:?}", self.status, self.text()))
    }

    /// The body of a 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The body of a problem document of this status and code, its shape checked.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status, "{body}");
        for name in ["type", "title", "detail"] {
            assert!(body[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {body}");
        }
        assert!(body["retryable"].is_boolean(), "{body}");
        let seconds = self.header("retry-after").map(|after| after.parse::<u64>().expect("whole"));
        if let Some(after) = body["retry_after_ms"].as_u64().filter(|_| body["retryable"] == true) {
            assert_eq!(seconds, Some(after.div_ceil(1000)), "Retry-After goes with {body}");
        } else {
            assert_eq!(seconds, None, "{body}");
        }
        body
    }

    /// A 400 that names the field.
    #[track_caller]
    pub fn bad_field(&self, field: &str) -> Value {
        let body = self.problem(400, "invalid-field");
        assert_eq!(body["field"], field, "{body}");
        assert!(body["detail"].as_str().expect("detail").contains(field), "{body}");
        body
    }

    /// A 400 about a body or query that cannot be read.
    #[track_caller]
    pub fn malformed(&self) -> Value {
        self.problem(400, "malformed-request")
    }
}

/// A connection that is kept open between calls.
#[derive(Debug)]
pub struct Connection<S = TcpStream> {
    pub stream: BufReader<S>,
}

impl Connection {
    pub async fn open(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("the server accepts");
        Self::over(stream)
    }

    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a TCP socket");
        Self::on(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// On any stream that is open.
    pub fn on(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        self.send(method, path, headers, body).await;
        self.receive().await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, &[], body.to_string().as_bytes()).await
    }

    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let bytes = request(method, path, headers, body);
        // A server that refuses a large body may close before it has read it all: its answer counts.
        let _ = self.stream.get_mut().write_all(&bytes).await;
    }

    pub async fn receive(&mut self) -> Reply {
        self.try_receive().await.expect("an answer")
    }

    /// The next answer; an error when the connection ends before it is whole.
    pub async fn try_receive(&mut self) -> std::io::Result<Reply> {
        let (status, headers) = self.head().await?;
        let find = |name: &str| headers.iter().find(|(there, _)| there == name);
        let mut body = Vec::new();
        if find("transfer-encoding").is_some_and(|(_, how)| how.contains("chunked")) {
            while let Some(chunk) = self.chunk().await? {
                body.extend(chunk);
            }
        } else if let Some((_, length)) = find("content-length") {
            body.resize(length.parse().map_err(std::io::Error::other)?, 0);
            self.stream.read_exact(&mut body).await?;
        }
        Ok(Reply { status, headers, body })
    }

    /// Status and headers.
    pub async fn head(&mut self) -> std::io::Result<(u16, Vec<(String, String)>)> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("no status: {first}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok((status, headers));
            }
            let (name, value) = line.split_once(':').expect("a header");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// One chunk of a chunked body; `None` at its end.
    pub async fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let line = self.line().await?;
        let length = usize::from_str_radix(&line, 16).map_err(std::io::Error::other)?;
        let mut chunk = vec![0; length];
        self.stream.read_exact(&mut chunk).await?;
        self.line().await?;
        Ok((length > 0).then_some(chunk))
    }

    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// The bytes of a request. `Host` and `Content-Type` are what `headers` say, where they do.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !given("host") {
        head.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" || !body.is_empty() {
        if !given("content-type") {
            head.push_str("Content-Type: application/json\r\n");
        }
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}
