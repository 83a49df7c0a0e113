//! What carries the bytes of a connection: TCP, TLS over TCP, or a Unix socket.
//!
//! Guarantees: a look ahead reads nothing of TCP and of a Unix socket, and at most one record (16 KiB) of TLS, since
//! only a record tells that the client ended the connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use actix_web::{
    dev::Extensions,
    rt::net::{TcpStream, UnixStream},
};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::http::caller::{PeerCertificate, PeerUid};

/// The stream of an accepted connection.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<Secured>),
    Local(UnixStream),
}

/// A TLS stream, and the certificate that its client has.
pub struct Secured {
    pub stream: TlsStream<TcpStream>,
    pub certificate: Option<Arc<PeerCertificate>>,
}

impl Stream {
    /// Whether a write may be ready although bytes wait in a buffer of ours, until they are flushed.
    pub fn buffers_writes(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Waits for what the client sends next: `true` if there is something to read, `false` if it hung up.
    pub fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        match self {
            Self::Plain(stream) => {
                let mut byte = [0];
                let mut peeked = ReadBuf::new(&mut byte);
                stream.poll_peek(context, &mut peeked).map_ok(|count| count > 0)
            }
            Self::Tls(stream) => {
                let ahead = Pin::new(&mut stream.stream).poll_fill_buf(context);
                ahead.map(|ahead| ended(ahead.map(|bytes| !bytes.is_empty()), false))
            }
            Self::Local(stream) => loop {
                ready!(stream.poll_read_ready(context))?;
                let peek = || Ok(recv(&*stream, &mut [0; 1], RecvFlags::PEEK)?.1);
                match stream.try_io(Interest::READABLE, peek) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    peeked => return Poll::Ready(peeked.map(|count| count > 0)),
                }
            },
        }
    }

    /// Notes who is at the other end, as far as the connection proves it.
    pub fn identify(&self, data: &mut Extensions) {
        match self {
            Self::Plain(_) => {}
            Self::Tls(secured) => {
                if let Some(certificate) = &secured.certificate {
                    tracing::debug!(names = ?certificate.names, "a client has a certificate");
                    data.insert(certificate.clone());
                }
            }
            Self::Local(stream) => {
                if let Ok(peer) = stream.peer_cred() {
                    tracing::debug!(uid = peer.uid(), "a client has connected by the Unix socket");
                    data.insert(PeerUid(peer.uid()));
                }
            }
        }
    }
}

/// Many clients close a connection without telling so by TLS. HTTP itself says where a message ends, so nothing is
/// taken for whole that was cut off.
fn ended<T>(outcome: io::Result<T>, end: T) -> io::Result<T> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(end),
        outcome => outcome,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => {
                Pin::new(&mut stream.stream).poll_read(context, buffer).map(|read| ended(read, ()))
            }
            Self::Local(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(&mut stream.stream).poll_write(context, bytes),
            Self::Local(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(&mut stream.stream).poll_flush(context),
            Self::Local(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(&mut stream.stream).poll_shutdown(context),
            Self::Local(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
