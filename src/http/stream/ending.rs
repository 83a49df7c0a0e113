//! Why a stream ends, and what its client is told of it.

use actix_http::ws::{CloseCode, CloseReason};

use crate::{http::answer::Problem, telemetry::StreamEnd};

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client closed it.
    Closed,
    /// The connection broke.
    Gone,
    /// The coordinator accepts no more work.
    Draining,
    /// What the client sent is no WebSocket.
    Broken(&'static str),
    /// The client sent a binary message.
    NotText,
    /// A message is no JSON object with an id, so that it cannot be answered.
    Unanswerable,
    /// The id of a call in flight was used for another one, so that neither can be answered.
    IdInUse,
    /// A message is too long.
    TooLong,
    /// Other bodies and messages take all the room that there is, or all that the caller may have.
    NoRoom(String),
    /// A message is in more fragments than its length explains.
    Fragments,
    /// Pings and pongs come more often than they may.
    Pings,
    /// Messages that cannot be read come more often than the caller may call.
    Misreads,
    /// The principal is no longer who it was.
    Removed(String),
    /// The client sent nothing for too long, not even the answer to a ping.
    Silent,
    /// A message did not come to its end for too long, while it took room from others.
    Slow,
    /// The client did not read what it was sent.
    Stuck,
}

/// The longest reason of a close, in bytes: a control frame has 125, and the code takes two.
const MAX_REASON: usize = 123;

impl Ending {
    /// A stream whose principal was removed, for this reason.
    pub fn removed(problem: &Problem) -> Self {
        Self::Removed(problem.detail.clone())
    }

    /// What the client is told; `None` if nothing.
    pub fn told(&self) -> Option<CloseReason> {
        let (code, reason) = match self {
            Self::Closed => (CloseCode::Normal, ""),
            Self::Gone => return None,
            Self::Draining => (CloseCode::Away, "the coordinator accepts no more work"),
            Self::Broken(why) => (CloseCode::Protocol, *why),
            Self::NotText => (CloseCode::Unsupported, "messages are text"),
            Self::Unanswerable => {
                (CloseCode::Invalid, "a message is no JSON object with an id from 0 to 2^53 - 1")
            }
            Self::IdInUse => (CloseCode::Policy, "the id of a call in flight was used again"),
            Self::TooLong => (CloseCode::Size, "a message is too long"),
            Self::NoRoom(why) => (CloseCode::Again, why.as_str()),
            Self::Fragments => (CloseCode::Policy, "a message is in too many fragments"),
            Self::Pings => (CloseCode::Policy, "more than 10 pings and pongs per second came"),
            Self::Misreads => (
                CloseCode::Policy,
                "messages that cannot be read came beyond the rate of the caller",
            ),
            Self::Removed(why) => (CloseCode::Policy, why.as_str()),
            Self::Silent => (CloseCode::Policy, "nothing came, not even the answer to a ping"),
            Self::Slow => (CloseCode::Policy, "a message did not come to its end"),
            Self::Stuck => (CloseCode::Policy, "what was sent was not read"),
        };
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON)];
        let description = (!reason.is_empty()).then(|| reason.to_owned());
        Some(CloseReason { code, description })
    }

    /// How it is counted.
    pub fn kind(&self) -> StreamEnd {
        match self {
            Self::Closed => StreamEnd::Closed,
            Self::Gone => StreamEnd::Gone,
            Self::Draining => StreamEnd::Draining,
            Self::Broken(_)
            | Self::NotText
            | Self::Unanswerable
            | Self::IdInUse
            | Self::TooLong
            | Self::Fragments
            | Self::Pings
            | Self::Misreads => StreamEnd::Refused,
            Self::NoRoom(_) => StreamEnd::NoRoom,
            Self::Removed(_) => StreamEnd::Removed,
            Self::Silent => StreamEnd::Silent,
            Self::Slow => StreamEnd::Slow,
            Self::Stuck => StreamEnd::Stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_fits_into_a_close_frame() {
        let long = "ä".repeat(200);
        for ending in [
            Ending::Draining,
            Ending::Unanswerable,
            Ending::IdInUse,
            Ending::NoRoom(long.clone()),
            Ending::Fragments,
            Ending::Pings,
            Ending::Misreads,
            Ending::Removed(long),
            Ending::Silent,
            Ending::Slow,
        ] {
            let told = ending.told().and_then(|told| told.description).expect("a reason");
            assert!(told.len() <= MAX_REASON, "{told}");
        }
        assert_eq!(Ending::Gone.told(), None);
    }
}
