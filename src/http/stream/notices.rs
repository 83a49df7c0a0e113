//! Notices as documents.

use crate::{
    api::{self, LeaseNotice, SessionNotice, StreamNotice},
    lease::Holdings,
    manager::{Notice, SessionAlive},
};

/// The document of a notice.
pub fn notice(told: Notice) -> StreamNotice {
    match told {
        Notice::Ended(key, token, kind) => StreamNotice::Lease(LeaseNotice::Ended {
            key: key.as_str().to_owned(),
            token: token.0,
            reason: kind.as_str(),
        }),
        Notice::Revoked(key, token) => StreamNotice::Lease(LeaseNotice::Revoked {
            key: key.as_str().to_owned(),
            token: token.0,
        }),
        Notice::HandOver(key, token, deadline_ms) => {
            StreamNotice::Lease(LeaseNotice::HandoverRequested {
                key: key.as_str().to_owned(),
                token: token.0,
                deadline_ms,
            })
        }
        Notice::Session { session, revoked, asks } => {
            // A heartbeat's answer has the same notices.
            let holdings = Holdings { count: 0, digest: 0 };
            let alive = SessionAlive { valid_for_ms: 0, holdings, revoked, asks };
            StreamNotice::Session(SessionNotice {
                session: session.to_string(),
                notices: api::Notice::all(alive),
                ended: false,
            })
        }
        Notice::SessionEnded(session) => StreamNotice::Session(SessionNotice {
            session: session.to_string(),
            notices: Vec::new(),
            ended: true,
        }),
    }
}
