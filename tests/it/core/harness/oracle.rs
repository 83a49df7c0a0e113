//! What docs/protocol.md promises, judged from outside: from what clients were told and what the store
//! holds, never from the core's own state.

use std::collections::BTreeMap;

use tenure::lease::{
    Answer, CLIENT_DRIFT, Change, ChangeKind, FenceReport, FenceRun, LeaseId, Lost, Moment, Policy,
    Record, Request, Token, WriteEffect,
};

use super::{ask::AT_ONCE, cell::StoreCell, fences_and_delay::Duties, who::Who};

/// What was found to be broken.
pub type Verdict = Result<(), String>;

/// One tenure, as the outside knows it.
#[derive(Clone, Debug)]
struct Seen {
    /// Until when its holder may believe that it holds the key.
    until: Moment,
    /// The holder closed its window itself: it gave the key back, or heard that it lost it.
    closed: bool,
    /// Cut short by `reclaim` or `revoke immediately`: excepted from I1.
    cut: bool,
    /// How it ended, if it did.
    ended: Option<ChangeKind>,
    /// It had expired and was revived. An actor that was rebuilt while a dead one's revival was on its
    /// way may still say so: the holder hears of its loss, and believes in no window any more.
    revived: bool,
}

/// The judge of one key.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    tenures: BTreeMap<Token, Seen>,
    proofs: Vec<(LeaseId, Token)>,
    seq: u64,
    owner: Option<String>,
    last_token: Token,
    duties: Duties,
    /// How much faster the home's clock runs than the judge's, in millionths: the slowest client that is
    /// allowed is slow by the home's clock.
    pub ppm: i64,
}

impl Oracle {
    /// The token whose proof this is, if any was handed out.
    pub fn token_of(&self, proof: LeaseId) -> Option<Token> {
        self.proofs.iter().find(|(known, _)| *known == proof).map(|(_, token)| *token)
    }

    /// R1: the window closes forever when the holder sends release or transfer.
    pub fn sent(&mut self, request: &Request) {
        let proof = match request {
            Request::Release(release) => release.lease_id,
            Request::Transfer(transfer) => transfer.lease_id,
            _ => return,
        };
        if let Some(seen) = self.token_of(proof).and_then(|token| self.tenures.get_mut(&token)) {
            seen.closed = true;
        }
    }

    /// A write was begun while this policy held.
    pub fn ruled(&mut self, write: &WriteEffect, policy: &std::sync::Arc<Policy>) {
        self.duties.ruled(write, policy);
    }

    /// A plugin reported.
    pub fn reported(&mut self, report: &FenceReport) {
        self.duties.reported(report);
    }

    /// A plugin is told to fence.
    pub fn fencing(&self, run: &FenceRun) -> Verdict {
        self.duties.fencing(run)
    }

    /// Once faults stopped, every fence that is due was run.
    pub fn all_fenced(&self) -> Verdict {
        self.duties.all_done()
    }

    /// I2 and I4: tokens and entries of the history grow in the order of the commits.
    pub fn committed(&mut self, write: &WriteEffect, cell: &StoreCell) -> Verdict {
        let entries = &cell.history[cell.history.len() - write.changes.len()..];
        for change in entries {
            let revived = change.reason.as_deref() == Some("revived");
            let grants = change.kind == ChangeKind::Granted && !revived;
            ensure(!grants || change.token > self.last_token, || {
                format!("I2: {:?} after {:?}", change.token, self.last_token)
            })?;
            self.seq += 1;
            ensure(change.seq == self.seq, || {
                format!("I4: {change:?} is not number {}", self.seq)
            })?;
            match change.kind {
                ChangeKind::Granted if revived => {
                    let seen = self.tenures.entry(change.token).or_insert_with(Seen::new);
                    let expired = seen.ended == Some(ChangeKind::Expired);
                    ensure(expired, || format!("R11: {change:?} revives {seen:?}"))?;
                    seen.ended = None;
                    seen.revived = true;
                }
                ChangeKind::Granted => {
                    self.last_token = change.token;
                    self.tenures.insert(change.token, Seen::new());
                }
                ChangeKind::Pinned | ChangeKind::Unpinned => continue,
                kind if kind.ends_tenure() => self.ended(change),
                _ => {}
            }
            self.duties.committed(change, write, cell.before.as_deref())?;
            self.owner = change.owner.as_ref().map(ToString::to_string);
        }
        let record = &write.record;
        let says = record.token(cell.revision());
        ensure(says == self.last_token || cell.there.is_none(), || {
            format!("I2: the record says {says:?}, the history {:?}", self.last_token)
        })?;
        ensure(record.seq == self.seq, || format!("I4: the record says {}", record.seq))?;
        let owner = record.tenure.as_ref().map(|tenure| tenure.owner.to_string());
        ensure(owner == self.owner, || format!("I4: {owner:?}, but derived {:?}", self.owner))
    }

    fn ended(&mut self, change: &Change) {
        let seen = self.tenures.entry(change.token).or_insert_with(Seen::new);
        // What an administrator does to an offer is no second end of the tenure before it.
        seen.ended.get_or_insert(change.kind);
        let at_once = change.reason.as_deref() == Some(AT_ONCE);
        seen.cut |= change.kind == ChangeKind::Reclaimed || at_once;
    }

    /// R2: by its own will a home ends a tenure only when its last promise ran out.
    pub fn ended_in_time(&self, write: &WriteEffect, now: Moment) -> Verdict {
        let own = |change: &&Change| {
            change.kind == ChangeKind::Expired
                || (change.kind == ChangeKind::Revoked && change.reason.as_deref() != Some(AT_ONCE))
        };
        for change in write.changes.iter().filter(own) {
            let early = self.tenures.get(&change.token).filter(|s| !s.closed && s.until > now);
            ensure(early.is_none(), || format!("R2: {change:?} at {now:?} under {early:?}"))?;
        }
        Ok(())
    }

    /// An answer reached its caller.
    pub fn told(&mut self, who: &Who, answer: &Answer, now: Moment, cell: &StoreCell) -> Verdict {
        ensure(who.answers() == 1, || format!("{who:?} was answered {} times", who.answers()))?;
        match answer {
            Answer::Granted(grant) => {
                let token = grant.view.token;
                self.durable(token, cell)?;
                self.proofs.push((grant.lease_id, token));
                if !who.has_left() {
                    self.duties.heard(token);
                }
                self.window(token, who, grant.valid_for_ms, now)
            }
            Answer::Alive { token, valid_for_ms, .. } => {
                self.durable(*token, cell)?;
                written(who, cell)?;
                self.window(*token, who, *valid_for_ms, now)
            }
            Answer::Lost(lost) => self.lost(who, *lost, cell),
            Answer::Released(true) => self.released(who, cell),
            _ => Ok(()),
        }
    }

    /// Nobody is promised a tenure that the store does not hold.
    fn durable(&self, token: Token, cell: &StoreCell) -> Verdict {
        let there = cell.there.as_ref().filter(|(_, record)| record.tenure.is_some());
        let durable = there.map(|(revision, record)| record.token(*revision));
        ensure(durable == Some(token), || {
            format!("I3: promised {token:?}, but the store holds {durable:?}")
        })
    }

    /// I1: the client counts from before it sent; its clock may be the slowest that is allowed.
    fn window(&mut self, token: Token, who: &Who, valid_for_ms: u64, now: Moment) -> Verdict {
        let span = CLIENT_DRIFT.stretch(std::time::Duration::from_millis(valid_for_ms));
        let span = span.mul_f64(1e6 / (1_000_000 + self.ppm) as f64);
        // A lease that a session keeps promises nothing.
        let until = if valid_for_ms == 0 { who.sent } else { who.sent + span };
        let Some(seen) = self.tenures.get_mut(&token) else {
            return Err(format!("promised {token:?}, which was never granted"));
        };
        seen.until = seen.until.max(until);
        if seen.closed || seen.cut {
            return Ok(());
        }
        let open = |seen: &Seen| !seen.closed && !seen.cut && seen.until > now;
        let overlap = self.tenures.iter().find(|(other, seen)| **other != token && open(seen));
        ensure(until <= now || overlap.is_none(), || {
            format!("I1: at {now:?} {token:?} is promised until {until:?} beside {overlap:?}")
        })
    }

    fn lost(&mut self, who: &Who, lost: Lost, cell: &StoreCell) -> Verdict {
        let proof = match &*who.asked {
            Request::Heartbeat(beat) => beat.lease_id,
            Request::Transfer(transfer) => transfer.lease_id,
            other => return Err(format!("{other:?} lost a lease")),
        };
        let Some(token) = self.token_of(proof) else {
            return ensure(lost == Lost::UnknownLease, || format!("{lost:?} of nobody's lease"));
        };
        let Some(seen) = self.tenures.get_mut(&token) else { return Ok(()) };
        seen.closed = true;
        let ordered = cell.there.as_ref().is_some_and(|(_, record)| record.revocation.is_some());
        let ended = seen.ended.or(ordered.then_some(ChangeKind::Revoked));
        match lost {
            Lost::Ended(ChangeKind::Expired) if seen.revived => Ok(()),
            Lost::Fenced => ensure(ended == Some(ChangeKind::Expired), || {
                format!("{token:?} is said to be fenced; it was {ended:?}")
            }),
            Lost::Ended(how) => ensure(ended == Some(how), || {
                format!("{token:?} is said to have ended by {how:?}; it was {ended:?}")
            }),
            Lost::UnknownLease => ensure(ended.is_some(), || format!("{token:?} is not known")),
        }
    }

    fn released(&self, who: &Who, cell: &StoreCell) -> Verdict {
        let release = match &*who.asked {
            Request::Release(release) => release,
            // It may also open a key that the tenure left shut.
            Request::GiveBack(_) => return Ok(()),
            _ => return Err("an answer to a release that nobody asked for".into()),
        };
        // Which tenure a lease id belongs to that nobody was told, only the lease knows.
        let token = self.token_of(release.lease_id);
        let durable = cell.history.iter().any(|change| {
            let ended = change.previous.as_ref().map(|(_, ended)| *ended);
            change.kind == ChangeKind::Released
                && ended.is_some_and(|e| token.is_none_or(|t| e == t))
        });
        ensure(durable, || format!("I3: {token:?} was not released in the store"))
    }
}

/// A new ttl is promised, and a new value acknowledged, once the store has it. A heartbeat that says
/// what the record said before a write in doubt is a plain one.
fn written(who: &Who, cell: &StoreCell) -> Verdict {
    let Request::Heartbeat(beat) = &*who.asked else {
        return Err(format!("{who:?} is told that it is alive"));
    };
    let says = |record: &Record| {
        let ttl = record.tenure.as_ref().map(|tenure| tenure.ttl_ms);
        (beat.ttl_ms.is_none() || beat.ttl_ms == ttl)
            && (beat.value.is_none() || beat.value == record.value)
    };
    let (now, before) = (cell.there.as_ref().map(|(_, record)| record), cell.before.as_ref());
    let written = now.into_iter().chain(before).any(|record| says(record));
    ensure(written, || format!("{beat:?} is not what the store holds"))
}

pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}

impl Seen {
    fn new() -> Self {
        Self { until: Moment::ZERO, closed: false, cut: false, ended: None, revived: false }
    }
}
