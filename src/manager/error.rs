//! The errors of the operations: one type for each family of them. Each family adds its own refusals to [`CallError`],
//! which any operation can meet.

use std::time::Duration;

use super::availability::Availability;
use crate::{
    actor::{Asked, KeptOut, Share},
    lease::{Answer, Lost, Nonce, Refusal, StoreError, View},
};

/// An argument that the interface does not permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {detail}")]
pub struct Invalid {
    /// The name of the argument, such as `wait_ms`.
    pub field: &'static str,
    /// What is wrong with it, and what is permitted.
    pub detail: String,
}

/// The home node of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The incarnation under which the node answers for the lease.
    pub node: Nonce,
    /// The node's address, if it is known.
    pub url: Option<Box<str>>,
}

/// What any operation can meet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// An argument is out of bounds.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Another, living node is the lease's home node. Ask there.
    #[error("the lease has another home node{}", .0.url.as_deref().map(|url| format!(", {url}")).unwrap_or_default())]
    Elsewhere(Home),
    /// Too many calls for the key wait, or are in progress.
    #[error(
        "too many calls for this key wait (limits.waiters_per_key) or are in progress (limits.inflight_per_key)"
    )]
    Busy,
    /// The record that an order changes is taken: other orders are being stored, or a node died while it stored one.
    /// Nothing was changed.
    #[error(
        "the order was not carried out: other orders are being stored, or a node died while it stored one; try again in \
         a few seconds"
    )]
    RecordTaken,
    /// The session's home node has just changed. The new one must know all leases of the session before it answers.
    #[error("the session's new home node does not know all its leases yet; try again in a moment")]
    IndexingSession,
    /// This node must know all keys of the pool before it computes a member's share.
    #[error("this node does not know all keys of the pool yet; try again in a moment")]
    IndexingPool,
    /// All places for waiting callers at this coordinator are taken.
    #[error("all places for waiting callers at this coordinator are taken (limits.waiting_places)")]
    Crowded,
    /// The caller's principal has as many as its limit allows.
    #[error("the principal uses its {limit}: at most {most} at a time")]
    OverLimit {
        /// The name of the limit in the access file: `held` or `sessions`.
        limit: &'static str,
        /// Its value.
        most: u32,
    },
    /// The caller would wait at more keys than its principal may wait at.
    #[error(
        "the call would wait at {wanted} keys, and the calls of one principal may wait at {most} at a time \
         (`{limit}`): wait at fewer, or end other calls that wait"
    )]
    OverWaits {
        /// The limit: `waits` of the access file, or half of `waiting_places`.
        limit: &'static str,
        /// Its value.
        most: usize,
        /// The keys at which this call would wait.
        wanted: usize,
    },
    /// The caller's principal has taken as many new keys within an hour as it may.
    #[error("the principal is at its limit `new_keys`: at most {most} new keys per hour")]
    OverNewKeys {
        /// The value of the limit.
        most: u32,
        /// When there is room for another one.
        after: Duration,
    },
    /// Another call with this request id is being served.
    #[error("another call with this request_id is being served")]
    InFlight,
    /// The key's record cannot be interpreted. The key counts as held by an unknown owner.
    #[error("the record of this key cannot be interpreted: {0}")]
    Quarantined(Box<str>),
    /// The key's actor died too often lately. The key accepts no calls for this long.
    #[error("the actor of this key failed repeatedly; it is started again in {0:?}")]
    Resting(Duration),
    /// The store did not accept the operation. Whether a write happened is unknown, unless the error says so.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store went backwards. Nothing is granted until an operator raises the epoch.
    #[error("nothing is granted: the store went backwards, and its epoch has not been raised yet")]
    Frozen,
    /// The coordinator accepts no more work, or none yet.
    #[error("this coordinator accepts no work: it is starting or stopping")]
    Draining,
    /// This node could not renew its own record in the store, and may promise nothing.
    #[error("this node could not renew its record in the store, and may promise nothing for now")]
    Lapsed,
    /// The policy of the key changed while the call was served: the key is no lease any more, or belongs to another pool.
    /// Nothing was granted. Ask again, by [`Manager::acquire_permit`] if the key has permits now.
    ///
    /// [`Manager::acquire_permit`]: super::Manager::acquire_permit
    #[error("the policy of the key changed while the call was served, and nothing was granted")]
    PolicyChanged,
    /// The protocol gave an answer that the operation does not expect: a fault of this program. Whether the operation
    /// had an effect is unknown. The log names the answer.
    #[error("the coordinator has a fault; its log names the operation and the unexpected answer")]
    Unexpected,
}

/// Why an acquire or acquire-any granted nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The key, of which this is the view, or the request id of an acquire-any refuses.
    #[error("not granted: {0}")]
    Refused(Refusal, Option<Box<View>>),
    /// None of an acquire-any's keys could be granted.
    #[error("{}", none_of(.0))]
    NoneAvailable(Availability),
    /// The session has its share of the pool, or none of the keys could be granted.
    #[error("{}: the session has {} of its share of {}{}", none_of(.0), .1.held, .1.share, .2)]
    NoneOfShare(Availability, Share, Box<KeptOut>),
    /// The session that was to keep what is acquired cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What any operation can meet.
    #[error(transparent)]
    Call(#[from] CallError),
}

fn none_of(counts: &Availability) -> String {
    match counts.keys {
        0 => "no key is available".to_owned(),
        1 => "the only key is not available".to_owned(),
        keys => format!("none of {keys} keys is available"),
    }
}

/// Why a holder's heartbeat, transfer or release was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HolderError {
    /// The caller is no longer the holder.
    #[error("the caller no longer holds the lease: {0}")]
    Lost(Lost),
    /// A session keeps the lease: only the session's heartbeat keeps it alive.
    #[error("the session {0} keeps the lease: send the session's heartbeat")]
    KeptBySession(Nonce),
    /// Another owner holds the key that the caller asked to release.
    #[error("another owner holds the lease")]
    NotHolder(Box<View>),
    /// What any operation can meet.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a session was not made, kept or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The session is over, or never existed.
    #[error("the session is over: {0}")]
    Lost(Lost),
    /// What any operation can meet.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why an administrator's order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// No fence of the key awaits confirmation.
    #[error("no fence of the key awaits confirmation")]
    NotFencing(Box<View>),
    /// The key has no owner.
    #[error("the lease has no owner")]
    NotHeld(Box<View>),
    /// The key is pinned, and the order did not say `immediately`.
    #[error("the lease is pinned")]
    Pinned(Box<View>),
    /// The key has the highest number of pins.
    #[error("the key has {} pins, which is the limit", crate::lease::MAX_PINS)]
    TooManyPins,
    /// This node has no access file.
    #[error("this node has no access file, so a revocation would have no effect here")]
    NoAccessFile,
    /// The order would leave no principal that could undo it.
    #[error(
        "the access file has no other principal with the right \"access\", so the order could not be undone: give another one that \
         right first, or take this one out of the file"
    )]
    LocksOut,
    /// A node of another version serves the store, and may not know of such orders.
    #[error(
        "the node {0} runs another version, which may not follow the revocation list: upgrade it first"
    )]
    OtherVersion(Box<str>),
    /// What any operation can meet.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Lets `?` turn an invalid argument into the error of each family.
macro_rules! from_invalid {
    ($($family:ident),*) => {$(
        impl From<Invalid> for $family {
            fn from(invalid: Invalid) -> Self {
                Self::Call(CallError::Invalid(invalid))
            }
        }
    )*};
}

from_invalid!(AcquireError, HolderError, SessionError, AdminError);

/// A session is a lease of its own, which its holder keeps and releases.
impl From<HolderError> for SessionError {
    fn from(error: HolderError) -> Self {
        match error {
            HolderError::Lost(lost) => Self::Lost(lost),
            HolderError::KeptBySession(_) | HolderError::NotHolder(_) => {
                Self::Lost(Lost::UnknownLease)
            }
            HolderError::Call(error) => Self::Call(error),
        }
    }
}

impl HolderError {
    /// Blames the value as [`CallError::blaming`] does.
    pub(super) fn blaming(self, value: Option<&str>) -> Self {
        match self {
            Self::Call(error) => Self::Call(error.blaming(value)),
            other => other,
        }
    }
}

impl AcquireError {
    /// Blames the value as [`CallError::blaming`] does.
    pub(super) fn blaming(self, value: Option<&str>) -> Self {
        match self {
            Self::Call(error) => Self::Call(error.blaming(value)),
            other => other,
        }
    }
}

impl CallError {
    /// Whether the outcome of the call is unknown: it may have been granted what it asked for, or may be yet.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        let unavailable = matches!(self, Self::Store(StoreError::Unavailable(_)));
        unavailable || matches!(self, Self::Lapsed | Self::Resting(_) | Self::Unexpected)
    }

    /// The same error of a call that brings this value: if the record is too long for the store, the value is at fault.
    pub(super) fn blaming(self, value: Option<&str>) -> Self {
        match (self, value) {
            (Self::Store(StoreError::TooLong(why)), Some(value)) => {
                let long = value.len();
                let detail =
                    format!("is {long} bytes long, which is too long for this store: {why}");
                Self::Invalid(Invalid { field: "value", detail })
            }
            (error, _) => error,
        }
    }

    /// Whether the call goes on at another node. A call whose home node could not be reached ends here.
    pub(super) fn is_forwarded(&self, asked: Asked) -> bool {
        matches!(self, Self::Elsewhere(_)) && !asked.home_unreachable
    }

    /// What an answer says that is none of the operation's own.
    pub(super) fn of(operation: &'static str, answer: Answer) -> Self {
        match answer {
            Answer::Busy => Self::Busy,
            Answer::Quarantined(why) => Self::Quarantined(why),
            Answer::Store(error) => Self::Store(error),
            Answer::Lapsed | Answer::GivenBack => Self::Lapsed,
            Answer::Frozen => Self::Frozen,
            Answer::NoLease => Self::PolicyChanged,
            unexpected => {
                let answer = name_of(&unexpected);
                tracing::error!(
                    operation,
                    answer,
                    "an operation got an unexpected answer; the call fails as internal"
                );
                Self::Unexpected
            }
        }
    }
}

/// The name of an answer, without its content: values and names of owners do not belong in this log.
fn name_of(answer: &Answer) -> String {
    format!("{answer:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{Event, Level, Subscriber};
    use tracing_subscriber::{Layer, layer::Context, prelude::*};

    use super::*;

    /// Keeps the levels of what is logged.
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl<S: Subscriber> Layer<S> for Levels {
        fn on_event(&self, line: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().expect("no panic").push(*line.metadata().level());
        }
    }

    fn of_heartbeat(answer: Answer) -> (CallError, Vec<Level>) {
        let levels = Arc::default();
        let logs = tracing_subscriber::registry().with(Levels(Arc::clone(&levels)));
        let error = tracing::subscriber::with_default(logs, || CallError::of("heartbeat", answer));
        let levels = levels.lock().expect("no panic").clone();
        (error, levels)
    }

    #[test]
    fn an_answer_that_no_operation_expects_is_a_fault() {
        for answer in [Answer::TooManyPins, Answer::Released(true), Answer::Revoked(7)] {
            assert_eq!(of_heartbeat(answer), (CallError::Unexpected, vec![Level::ERROR]));
        }
    }

    #[test]
    fn an_answer_that_any_operation_can_meet_says_what_it_met() {
        let full = StoreError::Full("7 bytes".into());
        let met = [
            (Answer::Busy, CallError::Busy),
            (Answer::Lapsed, CallError::Lapsed),
            (Answer::Frozen, CallError::Frozen),
            (Answer::NoLease, CallError::PolicyChanged),
            (Answer::Store(full.clone()), CallError::Store(full)),
        ];
        for (answer, error) in met {
            assert_eq!(of_heartbeat(answer), (error, Vec::new()));
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_blamed_on_the_value_of_the_call() {
        let long = || CallError::Store(StoreError::TooLong("1 MB at most".into()));
        assert_eq!(long().blaming(None), long());
        let CallError::Invalid(invalid) = long().blaming(Some("value")) else { panic!() };
        assert_eq!(invalid.field, "value");
        assert!(invalid.detail.contains("5 bytes") && invalid.detail.contains("1 MB at most"));
        assert_eq!(CallError::Busy.blaming(Some("value")), CallError::Busy);
    }

    #[test]
    fn a_fault_is_logged_without_the_content_of_the_answer() {
        let alive =
            Answer::Alive { token: crate::lease::Token(7), valid_for_ms: 1, revived: false };
        assert_eq!(name_of(&alive), "Alive");
        assert_eq!(name_of(&Answer::Released(true)), "Released");
    }
}
