//! One keep-alive connection, driven by the task that uses it.

use std::pin::pin;

use anyhow::{Context as _, Result, anyhow};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use super::{Request, Target};
use crate::endpoint::Endpoint;

/// The largest answer taken, in bytes: 10 000 verdicts or 1 000 grants are about 1 MiB.
const MAX_ANSWER: usize = 64 << 20;

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Driver = http1::Connection<Stream, Full<Bytes>>;

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body of a success as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        let body = self.status.is_success().then_some(&self.body)?;
        serde_json::from_slice(body).ok()
    }
}

/// One connection.
///
/// hyper splits it in two: what sends requests, and what moves the bytes. A task of its own for the
/// latter would cost two changes of tasks per request, so [`Connection::call`] polls both.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Driver>,
}

impl Connection {
    /// Connects, with `TCP_NODELAY`, and with TLS where the target has it.
    pub async fn open(target: &Target) -> Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let stream = TokioIo::new(stream);
        let stream: Stream = match target.means().tls() {
            None => stream.into(),
            Some(config) => {
                let name = ServerName::from(target.address.ip());
                let connector = TlsConnector::from(config.clone());
                connector.connect(name, TokioIo::new(stream)).await?.into()
            }
        };
        let (sender, driver) = http1::handshake(stream).await?;
        Ok(Self { sender, driver: Some(driver) })
    }

    /// Whether the server will take another request here.
    pub fn is_open(&self) -> bool {
        self.driver.is_some() && !self.sender.is_closed()
    }

    /// Sends one request and waits for its whole answer.
    pub async fn call(&mut self, request: Request) -> Result<Answer> {
        let Self { sender, driver } = self;
        let moving = driver.as_mut().context("the connection has ended")?;
        let mut exchange = pin!(async {
            sender.ready().await?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|it| anyhow!(it))?;
            Ok(Answer { status: head.status, body: body.to_bytes() })
        });
        tokio::select! {
            biased;
            ended = moving => {
                *driver = None;
                // What came before the end may be the whole answer.
                match (exchange.await, ended) {
                    (Err(_), Err(error)) => Err(error.into()),
                    (answer, _) => answer,
                }
            }
            answer = &mut exchange => answer,
        }
    }

    /// Sends one request and gives the body of its answer as it comes. The connection serves it to its end.
    pub async fn stream(self, request: Request) -> Result<(StatusCode, Incoming)> {
        let Self { mut sender, driver } = self;
        let driver = driver.context("the connection has ended")?;
        // An error of the connection is one of the body too.
        tokio::spawn(async move { drop(driver.await) });
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok((head.status, body))
    }
}

impl Endpoint for Target {
    type Connection = Connection;
    type Request = Request;
    type Answer = Answer;

    async fn open(&self) -> Result<Connection> {
        Connection::open(self).await
    }

    fn is_open(connection: &Connection) -> bool {
        connection.is_open()
    }

    async fn call(connection: &mut Connection, request: Request) -> Result<Answer> {
        connection.call(request).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What a client makes of an answer, and whether its connection takes another request.
    async fn answered(answer: &'static str) -> (Result<Answer>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap());
        let target = Target::parse(&target).unwrap();
        let mut connection = Connection::open(&target).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let server = async {
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            drop(stream);
        };
        let (answer, ()) = tokio::join!(connection.call(target.get("/").unwrap()), server);
        (answer, connection.is_open())
    }

    #[tokio::test]
    async fn an_answer_counts_also_when_the_server_closes_after_it() {
        let told = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno";
        let (answer, open) = answered(told).await;
        let answer = answer.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.body[..], open), (503, &b"no"[..], false));
        assert!(answer.json::<u8>().is_none());
    }

    #[tokio::test]
    async fn half_an_answer_is_an_error() {
        let (answer, open) = answered("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
        assert!(answer.is_err() && !open);
    }
}
