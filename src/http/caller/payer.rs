//! Who a call is charged to where callers share something that has a bound.

use std::{fmt, net::IpAddr, sync::Arc};

use actix_web::{HttpRequest, http::header::HeaderValue};

use super::{identity::PeerUid, network::network, reading::Caller};
use crate::http::peer::{FORWARDED_FOR, was_forwarded};

/// A principal; or, for callers without one, where they call from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Payer {
    /// A principal, by its name.
    Principal(Arc<str>),
    /// An IPv4 address or an IPv6 /64 network.
    Address(IpAddr),
    /// A user of this machine who calls by the Unix socket.
    Local(Option<u32>),
}

impl Payer {
    /// Who pays for a call of this caller, who calls from this address or by the Unix socket.
    pub fn of(caller: &Caller, address: Option<IpAddr>, uid: Option<PeerUid>) -> Self {
        match (caller.account(), address) {
            (Some(principal), _) => Self::Principal(principal.name.clone()),
            (None, Some(address)) => Self::Address(network(address)),
            (None, None) => Self::Local(uid.map(|uid| uid.0)),
        }
    }

    /// Who pays for a request that passed the door. For a forwarded call, the address is the one that the first node saw.
    pub fn of_request(request: &HttpRequest) -> Self {
        let named = || {
            let shown = request.headers().get(FORWARDED_FOR).map(HeaderValue::to_str);
            shown.and_then(Result::ok).and_then(|address| address.parse().ok())
        };
        let first = if was_forwarded(request) { named() } else { None };
        let address = first.or_else(|| request.peer_addr().map(|peer| peer.ip()));
        Self::of(&Caller::of(request), address, PeerUid::of(request))
    }
}

/// As a refusal names it.
impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Principal(name) => write!(f, "the principal {name:?}"),
            Self::Address(_) => f.write_str("the callers at this address"),
            Self::Local(_) => f.write_str("the callers by the Unix socket"),
        }
    }
}
