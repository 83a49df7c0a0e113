//! Starts a lease from what the store holds and from nothing else.

use std::{sync::Arc, time::Duration};

use super::{
    context::Env,
    flight::Flight,
    lease::{Home, Lease, Quarantine, proof_of},
};
use crate::lease::{
    message::{Alarm, Caller, Effect, Effects, Loaded},
    primitives::{CLIENT_DRIFT, Moment, Revision, Token},
    records::{KeyState, Record},
    rules::{Inherited, Rules},
};

/// How long a quarantined record is left alone before a call causes another read of it.
const QUARANTINE: Duration = Duration::from_secs(5);

impl<C: Caller> Lease<C> {
    /// Builds a lease from what the store holds. It keeps what an earlier home node may have promised: the tenure does
    /// not end before `inherited` says that every such promise ran out. A tenure that an earlier actor of this process
    /// left is written once before anything is promised under it.
    #[must_use]
    pub fn recover(there: Loaded, inherited: Inherited, env: &mut Env<'_>) -> (Self, Effects<C>) {
        let mut lease = Self::with(Arc::new(Record::absent()), Revision::ABSENT);
        let mut out = Vec::new();
        lease.adopt(there, inherited, env, &mut out);
        if !env.context.rules.an_unconfirmed_fence_runs_again() {
            lease.leave_fences_to_the_dead();
        }
        lease.run_fences(env, &mut out);
        (lease, out)
    }

    /// Another writer wrote the record: starts from what it wrote.
    pub(super) fn rebase(&mut self, there: Loaded, env: &mut Env<'_>, out: &mut Effects<C>) {
        self.promised = Moment::ZERO;
        self.adopt(there, Inherited::FromActor(env.now), env, out);
    }

    /// Writes the record of a tenure once more, unchanged, and promises nothing until that is durable. The actor before
    /// this one may have died with a write in flight. If that write landed now, it could end the tenure while this
    /// actor's promise runs. Once this write is committed, the other one cannot land any more.
    fn confirm(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        let confirms = env.context.rules.a_rebuilt_tenure_is_confirmed_first();
        if self.record.state != KeyState::Held || !confirms {
            return;
        }
        let record = self.successor(env);
        let mut flight = Flight::new(record, self.revision, Vec::new());
        flight.ends = true;
        flight.outcome_unknown = true;
        self.launch(flight, out);
    }

    /// Quarantines the record. It is not read again before every promise that this node made under it has run out.
    fn quarantine(&mut self, why: Box<str>, before: Option<Box<Quarantine>>, now: Moment) {
        let span = self.record.promise_span().max(QUARANTINE);
        let until = now + CLIENT_DRIFT.stretch(span);
        let elsewhere = if self.home == Home::Living || self.record.session_ref().is_some() {
            Some(self.record.clone())
        } else {
            before.and_then(|before| before.elsewhere)
        };
        self.forget_record();
        self.token = Token::default();
        self.lease_id = None;
        self.floor = Moment::ZERO;
        self.quarantine = Some(Box::new(Quarantine { why, until, elsewhere }));
    }

    /// Forgets everything about the key except how many changes it had.
    fn forget_record(&mut self) {
        self.record = Arc::new(Record { seq: self.record.seq, ..Record::absent() });
        self.home = Home::Here;
    }

    /// Whether the session or the home node of a record that the store lost may still promise it.
    fn is_promised_elsewhere(lost: &Record, env: &Env<'_>, out: &mut Effects<C>) -> bool {
        if lost.session_ref().is_some() {
            // That ends when the session is over.
            return true;
        }
        match env.context.peers.as_ref().map(|peers| peers.get(lost.node)) {
            None => false,
            Some(None) => {
                out.push(Effect::Inquire(lost.node));
                true
            }
            Some(Some(home)) => {
                let gone = env.context.rules.a_lease_may_be_taken_from(home.record.state);
                !gone || env.now < Self::promises_of_the_gone_end(home, lost, env)
            }
        }
    }

    fn adopt(&mut self, there: Loaded, from: Inherited, env: &mut Env<'_>, out: &mut Effects<C>) {
        let before = self.quarantine.take();
        let lost = before.as_ref().and_then(|before| before.elsewhere.as_deref());
        let promised = lost.is_some_and(|lost| Self::is_promised_elsewhere(lost, env, out));
        match there {
            Loaded::Absent if self.revision == Revision::ABSENT => {}
            Loaded::Absent if self.record.state == KeyState::Free && !promised => {
                // The key was not held, and its record was removed. The store's revisions continue above the earlier
                // ones.
                self.forget_record();
                self.revision = Revision::ABSENT;
                self.settled_on(env);
            }
            Loaded::Absent => self.quarantine("the store lost the record".into(), before, env.now),
            Loaded::Record(revision, record) => {
                self.revision = revision;
                self.record = record;
                (self.home, self.graced) = (Home::Here, false);
                self.settled_on(env);
                self.forget_tenure(env);
                self.floor = match self.record.state {
                    KeyState::Held => {
                        let promise = self.record.promise_span();
                        env.context.rules.an_inherited_lease_stands_until(from, promise)
                    }
                    _ => Moment::ZERO,
                };
                if matches!(
                    self.record.state,
                    KeyState::Offered | KeyState::Cooling | KeyState::Fencing
                ) || self.record.shut_ms() > 0
                {
                    let span = Duration::from_millis(self.record.shut_ms());
                    self.opens_at = Rules::a_span_is_over_at(from, span);
                }
                self.inquire_session(out);
                self.reckon(env, out);
                if matches!(from, Inherited::FromActor(_)) && self.home == Home::Here {
                    self.confirm(env, out);
                }
            }
            Loaded::Quarantined(revision, why) => {
                self.revision = revision;
                self.quarantine(why.to_string().into(), before, env.now);
                out.push(Effect::Alarm(Alarm::Quarantined(why)));
            }
        }
    }

    /// What no record has of a tenure: whether an answer named it, and whether its owner took the key back while it was
    /// shut to others.
    fn forget_tenure(&mut self, env: &Env<'_>) {
        let owner = self.record.tenure.as_ref().map(|tenure| &tenure.owner);
        let last = self.record.previous.as_ref().map(|ended| &ended.tenure.owner);
        let rules = env.context.rules;
        let back = owner.zip(last).is_some_and(|(owner, last)| rules.is_owner(last, owner));
        let unknown = back && self.record.cooling_ms() > 0;
        self.unheard = false;
        self.shut_before = if unknown { Moment::NEVER } else { Moment::ZERO };
    }

    /// Sets what is derived from the settled record.
    pub(super) fn settled_on(&mut self, env: &Env<'_>) {
        self.token = self.record.token(self.revision);
        self.lease_id = self.record.tenure.as_ref().map(|tenure| proof_of(tenure, env));
    }
}
