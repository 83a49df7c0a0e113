//! A call within a stream: the connection and the caller are those of the stream.

use actix_web::{HttpMessage as _, HttpRequest};

use super::{identity::PeerUid, reading::Caller};

/// In the extensions of a request: it came as a message of a stream. No header can claim that.
#[derive(Clone)]
pub struct Within {
    /// Who opened the stream, which has charged it for this call.
    pub caller: Caller,
    /// What the stream's connection proves of the process at its other end.
    pub uid: Option<PeerUid>,
}

impl Within {
    /// Whether a request is a message of a stream.
    pub fn is(request: &HttpRequest) -> bool {
        request.extensions().contains::<Self>()
    }
}

impl PeerUid {
    /// The user at the other end of the connection by which a request came, if it is a Unix socket.
    pub fn of(request: &HttpRequest) -> Option<Self> {
        let within = || request.extensions().get::<Within>().and_then(|within| within.uid);
        request.conn_data::<Self>().copied().or_else(within)
    }
}
