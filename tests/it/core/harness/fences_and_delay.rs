//! I5, the lock-delay and the minimum hold, judged from what plugins reported and what the store holds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tenure::lease::{
    Change, ChangeKind, FenceReport, FenceResult, FenceRun, FenceWhen, Moment, Nonce,
    OnFenceFailure, Owner, Policy, Record, Token, WriteEffect,
};

use super::oracle::{Verdict, ensure};

/// The fence of a tenure that ended.
#[derive(Clone, Debug)]
struct Owed {
    when: FenceWhen,
    on_failure: OnFenceFailure,
    /// The plugins that did not confirm.
    left: Vec<Box<str>>,
}

impl Owed {
    /// What is missing failed, and the key goes on without it.
    fn is_alarmed(&self) -> bool {
        self.on_failure == OnFenceFailure::GrantWithAlarm && self.left.is_empty()
    }
}

/// What ended tenures left to be done.
#[derive(Clone, Debug, Default)]
pub struct Duties {
    /// The policy that held when a write was begun.
    ruled: BTreeMap<Nonce, Arc<Policy>>,
    owed: BTreeMap<Token, Owed>,
    /// Tenures that were owed a fence at some time and were not revived since.
    ever: BTreeMap<Token, FenceWhen>,
    /// Tenures whose resource may have been fenced.
    fenced: BTreeSet<Token>,
    /// Until when the key is shut to everybody but its last owner.
    shut: Option<(Moment, Owner)>,
    /// Until when the tenure that was granted last keeps everybody else from the key, whatever becomes of it.
    min_hold: Option<(Moment, Owner)>,
    /// The same, of a tenure before it whose owner took the key back.
    earlier_hold: Option<(Moment, Owner)>,
    /// The tenures that an answer named.
    heard: BTreeSet<Token>,
    last: Token,
}

impl Duties {
    pub fn ruled(&mut self, write: &WriteEffect, policy: &Arc<Policy>) {
        self.ruled.entry(write.record.nonce).or_insert_with(|| policy.clone());
    }

    /// A plugin's report reached the lease.
    pub fn reported(&mut self, report: &FenceReport) {
        let Some(owed) = self.owed.get_mut(&report.token) else { return };
        let done = match report.outcome {
            FenceResult::Confirmed => true,
            FenceResult::Failed(_) => owed.on_failure == OnFenceFailure::GrantWithAlarm,
            FenceResult::Interrupted => false,
        };
        owed.left.retain(|plugin| !done || *plugin != report.plugin);
    }

    /// A plugin is told to fence.
    pub fn fencing(&self, run: &FenceRun) -> Verdict {
        let due = match self.ever.get(&run.token) {
            Some(FenceWhen::BeforeGrant) => true,
            Some(FenceWhen::AfterGrant) => run.token != self.last,
            None => false,
        };
        ensure(due, || format!("R8: {run:?} while {:?} was granted last", self.last))
    }

    /// An answer named this tenure.
    pub fn heard(&mut self, token: Token) {
        self.heard.insert(token);
    }

    /// A change became durable.
    pub fn committed(
        &mut self,
        change: &Change,
        write: &WriteEffect,
        before: Option<&Record>,
    ) -> Verdict {
        let revived = change.reason.as_deref() == Some("revived");
        match change.kind {
            ChangeKind::Granted if revived => self.revived(change.token),
            ChangeKind::Granted => self.granted(change, write),
            ChangeKind::Fenced | ChangeKind::FenceFailed => self.written(change),
            ChangeKind::FenceSkipped => {
                let begun = |(_, owed): &(_, Owed)| owed.when == FenceWhen::BeforeGrant;
                let skipped = std::mem::take(&mut self.owed);
                self.fenced.extend(skipped.into_iter().filter(begun).map(|(token, _)| token));
                Ok(())
            }
            kind if kind.ends_tenure() && change.previous.is_some() => {
                // A grant that no answer named begins no minimum hold.
                if change.previous.as_ref().is_some_and(|(_, token)| !self.heard.contains(token)) {
                    self.min_hold = self.earlier_hold.take();
                }
                // An administrator's order ends a minimum hold, and so does a transfer by name.
                let to_any = |reason: &str| reason.starts_with("to any successor");
                let named = !change.reason.as_deref().is_some_and(to_any);
                if kind == ChangeKind::Revoked || kind == ChangeKind::Transferred && named {
                    self.min_hold = None;
                }
                self.ended(change, write, before);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn revived(&mut self, token: Token) -> Verdict {
        let fenced =
            self.fenced.contains(&token) || self.ever.get(&token) == Some(&FenceWhen::BeforeGrant);
        self.owed.remove(&token);
        self.ever.remove(&token);
        self.shut = None;
        ensure(!fenced, || format!("R11: {token:?} is revived, and was fenced"))
    }

    fn granted(&mut self, change: &Change, write: &WriteEffect) -> Verdict {
        self.last = change.token;
        let owed = self
            .owed
            .iter()
            .find(|(_, owed)| owed.when == FenceWhen::BeforeGrant && !owed.is_alarmed());
        ensure(owed.is_none(), || format!("I5: {change:?} before {owed:?}"))?;
        let early = self.shut.take().filter(|(until, owner)| {
            *until > write.record.written && change.owner.as_ref() != Some(owner)
        });
        ensure(early.is_none(), || format!("lock-delay: {change:?} before {early:?}"))?;
        let began = write.record.written;
        let owner = change.owner.clone().expect("a grant has an owner");
        let held = self.min_hold.take().filter(|(until, _)| *until > began);
        self.earlier_hold = held.clone().filter(|(_, by)| *by == owner);
        let early = held.filter(|(_, by)| owner != *by);
        ensure(early.is_none(), || format!("minimum hold: {change:?} before {early:?}"))?;
        let left = write.record.fences_and_delay.as_ref().map_or(0, |left| left.cooling_ms);
        self.min_hold = (left > 0).then(|| (began + std::time::Duration::from_millis(left), owner));
        Ok(())
    }

    fn written(&mut self, change: &Change) -> Verdict {
        let Some((_, token)) = change.previous else { return Ok(()) };
        self.fenced.insert(token);
        let Some(owed) = self.owed.get(&token) else {
            return Err(format!("I5: {change:?}, which was not owed"));
        };
        let done = owed.left.is_empty();
        ensure(done || change.kind == ChangeKind::FenceFailed, || {
            format!("I5: {change:?}, while {owed:?}")
        })?;
        // A failure may be written while the last report is on its way.
        if change.kind == ChangeKind::Fenced {
            self.owed.remove(&token);
        }
        Ok(())
    }

    fn ended(&mut self, change: &Change, write: &WriteEffect, before: Option<&Record>) {
        let Some(policy) = self.ruled.get(&write.record.nonce) else { return };
        let Some((owner, token)) = change.previous.clone() else { return };
        let session_ref = before.and_then(Record::session_ref);
        let delay_ms = match change.kind {
            ChangeKind::Expired => policy.lock_delay_ms,
            ChangeKind::SessionEnded => session_ref
                .and_then(|session_ref| session_ref.lock_delay_ms)
                .unwrap_or(policy.lock_delay_ms),
            _ => 0,
        };
        let delay = std::time::Duration::from_millis(delay_ms.into());
        self.shut = (delay_ms > 0).then(|| (write.record.written + delay, owner));
        let willing = matches!(change.kind, ChangeKind::Released | ChangeKind::Transferred);
        if let Some(plan) = policy.fence.as_ref().filter(|plan| !willing || plan.on_release) {
            let left = plan.plugins.to_vec();
            let owed = Owed { when: plan.when, on_failure: plan.on_failure, left };
            self.owed.insert(token, owed);
            self.ever.insert(token, plan.when);
        }
    }

    /// Once faults stopped, what was due was done.
    pub fn all_done(&self) -> Verdict {
        let due = |(token, owed): &(&Token, &Owed)| {
            !owed.is_alarmed() && (owed.when == FenceWhen::BeforeGrant || **token != self.last)
        };
        let left = self.owed.iter().find(due);
        ensure(left.is_none(), || format!("R8: {left:?} was never done"))
    }
}
