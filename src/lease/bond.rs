//! R6: tenures that a session keeps.
//!
//! A session is itself a lease, on a key that no caller can name. Its heartbeats, expiry, take-over and adoption are
//! those of any lease, and its tombstone is the end of its only tenure. A lease that a session keeps makes no promise
//! of its own. It ends when that tombstone is known to be durable.

use serde::{Deserialize, Serialize};

use super::{
    Answer, Call, Caller, ChangeKind, Effect, Env, Lease, Loaded, Mutant, Nonce, Record, Request,
    Revision, State,
    ending::End,
    machine::{Effects, Flight},
};

/// What happens to a key's value when the session that kept the key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Behavior {
    /// The value stays, so that the next owner can read it.
    Release,
    /// The value is deleted. The token is not.
    Delete,
}

/// The session reference of a tenure: the session that keeps it, and what the session specified for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bond {
    /// The session's digest, which is its public name.
    pub session: Nonce,
    /// How long the key stays shut after the session's end, in milliseconds; `None` when the key's policy decides.
    pub lock_delay_ms: Option<u32>,
    /// What happens to the key's value.
    pub behavior: Behavior,
}

/// The end of a session, as its leases are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionOver {
    /// The session's digest.
    pub session: Nonce,
    /// How it ended, for people.
    pub cause: Box<str>,
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
        Self { session, cause: cause.into(), actor: actor.map(Into::into) }
    }

    /// An end of which nothing more is known.
    #[must_use]
    pub fn unknown(session: Nonce) -> Self {
        Self { session, cause: "the session is over".into(), actor: None }
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

/// What to do about a lease that names a session, after the session's record was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// The lease stays.
    Lives,
    /// The lease is told that its session is over. Where this node was the session's last home node, it looks for the
    /// other leases as well.
    Over {
        /// What the lease is told.
        over: SessionOver,
        /// The node that wrote the tombstone.
        home: Nonce,
    },
    /// The session's tombstone must be written, and its record read again.
    WriteTombstone,
}

impl Inquiry {
    /// What follows from the record that was read under the session's key. A stale read never says that a live session
    /// is over, because nothing follows a tombstone.
    #[must_use]
    pub fn of(session: Nonce, there: &Loaded) -> Self {
        match there {
            Loaded::Absent => Self::WriteTombstone,
            Loaded::Record(_, record) if record.state != State::Held => {
                Self::Over { over: SessionOver::of_record(session, record), home: record.node }
            }
            Loaded::Record(..) | Loaded::Quarantined(..) => Self::Lives,
        }
    }

    /// Whether the session's tombstone was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }
}

impl<C: Caller> Lease<C> {
    /// The session's end, if it is known and this session kept the tenure.
    pub(super) fn over(&self) -> Option<&SessionOver> {
        let over = self.busy.as_ref()?.over.as_ref()?;
        (self.record.bond()?.session == over.session).then_some(over)
    }

    /// The tombstone of a session is durable: the sender saw it committed, or read it.
    pub(super) fn session_over(
        &mut self,
        over: SessionOver,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let kept = |record: &Record| record.bond().is_some_and(|b| b.session == over.session);
        let arriving = self.flight().is_some_and(|flight| kept(&flight.write.record));
        if !kept(&self.record) && !arriving {
            return;
        }
        self.busy().over = Some(over);
        // The end may write time spans that others count from this node's record. So this node must have a record.
        if self.flight().is_none() && !self.sits_out(env) {
            self.expire(env, out);
        }
    }

    /// The end of a tenure whose session is over.
    pub(super) fn session_end(&self, over: &SessionOver) -> End {
        End {
            reason: Some(over.cause.clone()),
            actor: over.actor.clone(),
            ..End::of(ChangeKind::SessionEnded)
        }
    }

    /// Asks whether the session that keeps the tenure is still alive.
    pub(super) fn inquire_session(&self, out: &mut Effects<C>) {
        if self.record.state == State::Held
            && let Some(bond) = self.record.bond()
        {
            out.push(Effect::InquireSession(bond.session));
        }
    }

    /// Answers a call that only the session's heartbeat can serve, and returns every other call.
    pub(super) fn refuse_kept(&self, call: Call<C>, out: &mut Effects<C>) -> Option<Call<C>> {
        let kept = match &call.request {
            Request::Heartbeat(beat) => self.holds(beat.lease_id),
            Request::Revoke(revoke) => {
                // A pinned lease does not end, so its session announces nothing.
                let pinned = !self.record.pins.is_empty();
                !revoke.immediately && revoke.floor.is_none() && !pinned
            }
            _ => false,
        };
        match self.record.bond() {
            Some(bond) if kept && self.record.state == State::Held => {
                out.push(Effect::Reply(
                    call.caller,
                    Answer::KeptBySession(bond.session, self.token),
                ));
                None
            }
            _ => Some(call),
        }
    }

    /// Writes the tombstone of a session that has no record. No such session can be created after that.
    pub(super) fn write_tombstone(
        &mut self,
        call: Call<C>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        if self.revision != Revision::ABSENT {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::Viewed(view)));
            return;
        }
        let nonce = (env.nonces)();
        let record = self.successor(nonce, env);
        let mut flight = Flight::new(record, self.revision, Vec::new());
        flight.cause = Some(call);
        self.launch(flight, out);
    }

    /// Whether this is a session's key that already has a record. A session has one tenure: the key is never granted
    /// again.
    pub(super) fn is_spent_session(&self, env: &Env<'_>) -> bool {
        env.key.is_session()
            && self.revision != Revision::ABSENT
            && !env.terms.breaks(Mutant::SessionRises)
    }
}
