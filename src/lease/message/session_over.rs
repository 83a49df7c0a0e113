//! The end of a session, as its leases are told of it.

use crate::lease::{
    primitives::Nonce,
    records::{ChangeKind, Record},
};

/// The end of a session, as its leases are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionOver {
    /// The digest of the session that ended.
    pub session: Nonce,
    /// How it ended, for people.
    pub cause: Box<str>,
    /// Its holder did not end it: it expired or was revoked.
    pub is_lost: bool,
    /// The administrator who revoked the session, if one did.
    pub actor: Option<Box<str>>,
}

impl SessionOver {
    /// Describes this end of the session for its leases.
    #[must_use]
    pub fn new(
        session: Nonce,
        kind: ChangeKind,
        reason: Option<&str>,
        actor: Option<&str>,
    ) -> Self {
        let cause = match (kind, reason) {
            (ChangeKind::Released, _) => "the session was destroyed",
            (ChangeKind::Expired, _) => "the session expired",
            (_, Some(reason)) => reason,
            (kind, None) => kind.as_str(),
        };
        let is_lost = Self::loses(kind);
        Self { session, cause: cause.into(), is_lost, actor: actor.map(Into::into) }
    }

    /// An end of which nothing more is known.
    #[must_use]
    pub fn unknown(session: Nonce) -> Self {
        Self { session, cause: "the session is over".into(), is_lost: false, actor: None }
    }

    /// Whether an end of this kind was not its holder's.
    #[must_use]
    pub fn loses(kind: ChangeKind) -> bool {
        matches!(kind, ChangeKind::Expired | ChangeKind::Revoked)
    }

    /// Reads the end of a session from the record of a session that is over.
    #[must_use]
    pub fn of_record(session: Nonce, record: &Record) -> Self {
        let Some(ended) = &record.previous else { return Self::unknown(session) };
        let order = record.revocation.as_ref();
        let (reason, actor) = (order.map(|order| &*order.reason), order.map(|order| &*order.actor));
        Self::new(session, ended.reason, reason, actor)
    }
}
