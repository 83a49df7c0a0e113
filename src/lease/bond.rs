//! R6: tenures that a session keeps.
//!
//! A session is itself a lease, on a key that no caller can name: its heartbeats, expiry, take-over and
//! adoption are those of any lease, and its tombstone is the end of its only tenure. What it keeps makes
//! no promise of its own, and ends when that tombstone is known to be durable.

use serde::{Deserialize, Serialize};

use super::{
    Answer, Call, Caller, ChangeKind, Effect, Env, Lease, Loaded, Mutant, Nonce, Record, Request,
    Revision, State,
    ending::End,
    machine::{Effects, Flight},
};

/// What becomes of a key's value when the session that kept the key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Behavior {
    /// It stays, for the next owner to read.
    Release,
    /// It goes. The token does not.
    Delete,
}

/// The session that keeps a tenure, and what it said about its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bond {
    /// The session's digest: its name for everybody.
    pub session: Nonce,
    /// How long the key stays shut after the session's end, in milliseconds; `None`: as its policy says.
    pub lock_delay_ms: Option<u32>,
    /// What becomes of the key's value.
    pub behavior: Behavior,
}

/// A session's end, as the leases that it kept are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionOver {
    /// Which session.
    pub session: Nonce,
    /// How it ended, for people.
    pub cause: Box<str>,
    /// Which administrator ordered it, where it was one.
    pub actor: Option<Box<str>>,
}

impl SessionOver {
    /// As the leases of a session are told of this end of it.
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

    /// How it ended is not known.
    #[must_use]
    pub fn unknown(session: Nonce) -> Self {
        Self { session, cause: "the session is over".into(), actor: None }
    }

    /// What the record of a session that is over says of its end.
    #[must_use]
    pub fn of_record(session: Nonce, record: &Record) -> Self {
        let Some(ended) = &record.previous else { return Self::unknown(session) };
        let order = record.revocation.as_ref();
        let (reason, actor) = (order.map(|order| &*order.reason), order.map(|order| &*order.actor));
        Self::new(session, ended.reason, reason, actor)
    }
}

/// What is to be done about a lease that names a session, after that session's record was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// The lease stays.
    Lives,
    /// The lease is told that its session is over. The other leases are looked for as well, where the session's last
    /// home was this node.
    Over {
        /// As the lease is told.
        over: SessionOver,
        /// The node that wrote the tombstone.
        home: Nonce,
    },
    /// The session's tombstone is to be made, and its record read again.
    Bury,
}

impl Inquiry {
    /// What follows from what was read under the session's key. A stale read never says that a session which lives is
    /// over: nothing follows a tombstone.
    #[must_use]
    pub fn of(session: Nonce, there: &Loaded) -> Self {
        match there {
            Loaded::Absent => Self::Bury,
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
    /// The session's end, if it is known and the tenure was kept by it.
    pub(super) fn over(&self) -> Option<&SessionOver> {
        let over = self.busy.as_ref()?.over.as_ref()?;
        (self.record.bond()?.session == over.session).then_some(over)
    }

    /// The tombstone of a session is durable. Whoever sends this saw it committed, or read it.
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
        // An end may leave spans that are counted by its author's record: it is to have one.
        if self.flight().is_none() && !self.sits_out(env) {
            self.expire(env, out);
        }
    }

    /// How a tenure ends whose session is over.
    pub(super) fn session_end(&self, over: &SessionOver) -> End {
        End {
            reason: Some(over.cause.clone()),
            actor: over.actor.clone(),
            ..End::of(ChangeKind::SessionEnded)
        }
    }

    /// A tenure that a session keeps: whether that still lives is to be found out.
    pub(super) fn inquire_session(&self, out: &mut Effects<C>) {
        if self.record.state == State::Held
            && let Some(bond) = self.record.bond()
        {
            out.push(Effect::InquireSession(bond.session));
        }
    }

    /// A call that only the session's heartbeat can answer.
    pub(super) fn refuse_kept(&self, call: Call<C>, out: &mut Effects<C>) -> Option<Call<C>> {
        let kept = match &call.request {
            Request::Heartbeat(beat) => self.holds(beat.lease_id),
            Request::Revoke(revoke) => {
                // A pinned one is not ended: its session announces nothing.
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

    /// Makes the tombstone of a session that has no record: it can never come to be any more.
    pub(super) fn bury(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
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

    /// A session has one tenure: once its key has a record, nobody is granted it again.
    pub(super) fn is_spent_session(&self, env: &Env<'_>) -> bool {
        env.key.is_session()
            && self.revision != Revision::ABSENT
            && !env.terms.breaks(Mutant::SessionRises)
    }
}
