//! The TLS handshake of a new connection.
//!
//! Guarantees: a handshake takes at most [`PATIENCE`]. Until it is done, its connection counts as one that is idle: it
//! is closed when its place is needed, and when the server stops.

use std::{future::poll_fn, io, rc::Rc, sync::Arc, task::Poll, time::Duration};

use actix_server::GracefulShutdownSignal;
use actix_web::rt::{net::TcpStream, time::sleep};
use rustls::HandshakeKind;
use tokio_rustls::TlsAcceptor;

use super::{
    line::{Line, Place},
    places::Seat,
    stream::{Secured, Stream},
};
use crate::{
    clock::Clock,
    http::caller::PeerCertificate,
    telemetry::{Handshake, Metrics},
    tls::{Before, Served},
};

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a TLS port needs to accept a connection.
#[derive(Clone)]
pub struct Tls {
    pub served: Arc<Served>,
    pub metrics: Arc<Metrics>,
    /// By which the certificates of clients end.
    pub clock: Arc<dyn Clock>,
}

impl Tls {
    /// The line of an accepted connection, once the client has proved what it must.
    ///
    /// # Errors
    /// The handshake failed or took too long, or the place is needed.
    pub async fn accept(
        self,
        stream: TcpStream,
        place: Place,
        stopping: GracefulShutdownSignal,
    ) -> io::Result<Line> {
        let before = Before { trust: self.served.trust(), wall_ms: self.clock.wall_ms() };
        let accepting = TlsAcceptor::from(self.served.config()).accept(stream);
        let seat = place.seat().clone();
        let (outcome, accepted) = tokio::select! {
            biased;
            () = cut(&seat) => (Handshake::Cut, Err(io::ErrorKind::ConnectionAborted.into())),
            accepted = accepting => match accepted {
                Ok(stream) if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) => {
                    (Handshake::Resumed, Ok(stream))
                }
                Ok(stream) => (Handshake::Done, Ok(stream)),
                Err(error) => (Handshake::Failed, Err(error)),
            },
            () = sleep(PATIENCE) => (Handshake::TimedOut, Err(io::ErrorKind::TimedOut.into())),
            () = stopping.notified() => (Handshake::Cut, Err(io::ErrorKind::ConnectionAborted.into())),
        };
        self.metrics.handshake(outcome);
        let accepted = accepted.inspect_err(|error| {
            tracing::debug!(%error, ?outcome, "a TLS handshake failed");
        })?;
        let chain = accepted.get_ref().1.peer_certificates();
        let certificate = chain.and_then(|chain| {
            PeerCertificate::of(chain, self.served, before, outcome == Handshake::Resumed)
        });
        let secured = Secured { stream: accepted, certificate: certificate.map(Arc::new) };
        Ok(Line::new(Stream::Tls(Box::new(secured)), place))
    }
}

/// Resolves when the place is needed.
async fn cut(seat: &Rc<Seat>) {
    poll_fn(|context| {
        seat.set_waker(context.waker());
        if seat.is_cut() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
