//! R8: fences, which keep the holder of an ended tenure from the resource.
//!
//! The write that ends a tenure names its fences, and every confirmation is a write too. The key's home node, whichever
//! it is by then, runs again what was not confirmed durably.

use super::{
    busy::Busy,
    context::Env,
    draft::Draft,
    fences_and_delay::settle_state,
    flight::Flight,
    lease::{Home, Lease, RETRY},
};
use crate::lease::{
    message::{
        Alarm, Answer, Call, Caller, Effect, Effects, FenceReport, FenceResult, FenceRun, Request,
    },
    primitives::Token,
    records::{Change, ChangeKind, Fence, KeyState, Record},
    rules::Rules,
};

impl<C: Caller> Lease<C> {
    fn is_due(&self, fence: &Fence) -> bool {
        Rules::a_fence_is_due(fence, self.token)
    }

    /// Whether a fence failed for good, and an administrator wants it to run once more.
    fn is_retried(&self, token: Token, plugin: &str) -> bool {
        let is_it = |(of, name): &(Token, Box<str>)| *of == token && **name == *plugin;
        self.busy.as_ref().is_some_and(|busy| busy.retried.iter().any(is_it))
    }

    /// The fences that failed for good, of one plugin or of all.
    fn failed_fences<'a>(
        &'a self,
        plugin: Option<&'a str>,
    ) -> impl Iterator<Item = (Token, &'a str)> {
        let failed = |fence: &'a Fence| fence.failed.iter().map(|name| (fence.token, &**name));
        let named = move |(_, name): &(Token, &str)| plugin.is_none_or(|plugin| plugin == *name);
        self.record.fences().iter().flat_map(failed).filter(named)
    }

    pub(super) fn has_failed_fence(&self, plugin: Option<&str>) -> bool {
        self.failed_fences(plugin).next().is_some()
    }

    /// Whether this lease has fences that are due.
    pub(super) fn has_due_fences(&self) -> bool {
        self.record.fences().iter().any(|fence| self.is_due(fence))
    }

    /// Has plugins run the fences that are due and not running yet.
    pub(super) fn run_fences(&mut self, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.record.fences_and_delay.is_none()
            || self.home == Home::Living
            || !self.has_due_fences()
        {
            return;
        }
        if self.flight().is_some() {
            // The write in flight may confirm the very fence that still seems to be pending.
            return;
        }
        let seq = self.record.seq;
        let unsure = |busy: &Busy<C>| busy.looking || busy.stale > seq;
        if self.retrying(env.now) || self.busy.as_deref().is_some_and(unsure) {
            return;
        }
        if !env.context.may_promise(env.now) {
            self.busy().retry_at = env.now + RETRY;
            return;
        }
        let record = self.record.clone();
        for fence in record.fences() {
            if !self.is_due(fence) {
                continue;
            }
            for plugin in &fence.pending {
                let retried = self.is_retried(fence.token, plugin);
                if !Rules::a_fence_runs(fence.failed.contains(plugin), retried) {
                    continue;
                }
                let running = &mut self.busy().running;
                if running.iter().any(|(token, name)| *token == fence.token && name == plugin) {
                    continue;
                }
                running.push((fence.token, plugin.clone()));
                out.push(Effect::Fence(FenceRun {
                    plugin: plugin.clone(),
                    token: fence.token,
                    owner: fence.owner.clone(),
                    reason: fence.reason,
                    session: fence.session,
                    timeout_ms: fence.timeout_ms,
                }));
            }
        }
    }

    /// Runs no fence that is pending now, as if the actor that began it were still running it: what a broken rule does.
    pub(super) fn leave_fences_to_the_dead(&mut self) {
        let record = self.record.clone();
        let pending = record
            .fences()
            .iter()
            .flat_map(|fence| fence.pending.iter().map(|plugin| (fence.token, plugin.clone())));
        self.busy().running.extend(pending);
    }

    pub(super) fn reported(
        &mut self,
        report: FenceReport,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let running = &mut self.busy().running;
        running.retain(|(token, plugin)| *token != report.token || *plugin != report.plugin);
        if report.outcome == FenceResult::Interrupted {
            self.busy().retry_at = env.now + RETRY;
        } else if self.flight().is_some() {
            self.busy().reports.push_back(report);
        } else {
            self.confirm_fence(report, env, out);
        }
    }

    /// Writes what a plugin reported. The same write opens the key if nothing else keeps it shut.
    pub(super) fn confirm_fence(
        &mut self,
        report: FenceReport,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let Some(at) = self.awaiting(&report) else { return };
        if self.home == Home::Living {
            // The home node runs it again.
            return;
        }
        if !env.context.may_promise(env.now) {
            // Only a home node writes what keeps a key shut. The fence runs again.
            self.busy().retry_at = env.now + RETRY;
            return;
        }
        self.busy()
            .retried
            .retain(|(token, plugin)| *token != report.token || *plugin != report.plugin);
        let mut record = self.successor(env);
        let failure = report.failure();
        if let Some(why) = &failure {
            out.push(Effect::Alarm(Alarm::FenceFailed(why.clone())));
        }
        let change = self.write_report(&mut record, at, &report.plugin, failure, env);
        self.open_up(record, change.into_iter().collect(), None, env, out);
    }

    /// The pending fence that a report is about.
    fn awaiting(&self, report: &FenceReport) -> Option<usize> {
        let named = |fence: &Fence| {
            let again = fence.failed.contains(&report.plugin)
                && report.outcome != FenceResult::Confirmed
                && !self.is_retried(report.token, &report.plugin);
            fence.token == report.token && fence.pending.contains(&report.plugin) && !again
        };
        self.record.fences().iter().position(named)
    }

    /// Enters in the record that a plugin confirmed a fence, or failed for good and why.
    fn write_report(
        &self,
        record: &mut Record,
        at: usize,
        plugin: &str,
        failure: Option<Box<str>>,
        env: &Env<'_>,
    ) -> Option<Change> {
        let left = record.fences_and_delay.as_mut()?;
        let fence = &mut left.fences[at];
        let (token, owner, session) = (fence.token, fence.owner.clone(), fence.session);
        let rules = env.context.rules;
        if failure.is_some() && rules.a_failed_fence_keeps_the_key_shut(fence.on_failure) {
            fence.failed_at(plugin);
        } else {
            fence.settled_by(plugin);
        }
        let done = fence.pending.is_empty();
        if done {
            left.fences.remove(at);
        }
        if let Some(ended) = &mut record.previous {
            ended.fenced |= ended.tenure.token == token;
        }
        if !done && failure.is_none() {
            return None;
        }
        record.seq += 1;
        let fenced = failure.is_none();
        Some(Change {
            kind: if fenced { ChangeKind::Fenced } else { ChangeKind::FenceFailed },
            seq: record.seq,
            owner: record.tenure.as_ref().map(|tenure| tenure.owner.clone()),
            token: self.token,
            previous: Some((owner, token)),
            reason: failure,
            actor: None,
            session,
        })
    }

    /// An administrator has the fences that failed for good run once more. The record keeps the failure until a plugin
    /// confirms, so the order ends with the actor that received it.
    pub(super) fn retry_fences(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::FenceRetry(plugin) = &call.request else { return };
        let wanted: Vec<(Token, Box<str>)> = self
            .failed_fences(plugin.as_deref())
            .map(|(token, plugin)| (token, plugin.into()))
            .collect();
        let answer = if wanted.is_empty() {
            Answer::NotFencing(Box::new(self.view(env.now)))
        } else if !env.context.may_promise(env.now) {
            Answer::Lapsed
        } else {
            let new = wanted.into_iter().filter(|(token, plugin)| !self.is_retried(*token, plugin));
            let new: Vec<_> = new.collect();
            self.busy().retried.extend(new);
            Answer::Done(Box::new(self.view(env.now)))
        };
        out.push(Effect::Reply(call.caller, answer));
    }

    /// An administrator skips the fences that were not confirmed.
    pub(super) fn skip_fences(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::FenceSkip(reason, actor) = &call.request else { return };
        let Some(first) = self.record.fences().first() else {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::NotFencing(view)));
            return;
        };
        if !env.context.may_promise(env.now) {
            out.push(Effect::Reply(call.caller, Answer::Lapsed));
            return;
        }
        let mut record = self.successor(env);
        if let Some(left) = &mut record.fences_and_delay {
            left.fences.clear();
        }
        if let Some(ended) = &mut record.previous {
            // A fence that was begun may have taken effect.
            let begun = |fence: &Fence| fence.token == ended.tenure.token && self.is_due(fence);
            ended.fenced |= self.record.fences().iter().any(begun);
        }
        record.seq += 1;
        let change = Change {
            kind: ChangeKind::FenceSkipped,
            seq: record.seq,
            owner: record.tenure.as_ref().map(|tenure| tenure.owner.clone()),
            token: self.token,
            previous: Some((first.owner.clone(), first.token)),
            reason: Some(reason.clone()),
            actor: Some(actor.clone()),
            session: first.session,
        };
        self.busy().retried.clear();
        self.open_up(record, vec![change], Some(call), env, out);
    }

    /// Writes a record with fewer pending fences. If the key is open now, the write grants it to the first caller in
    /// the queue.
    fn open_up(
        &mut self,
        mut record: Record,
        changes: Vec<Change>,
        cause: Option<Call<C>>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        if record.tenure.is_none() {
            settle_state(&mut record);
        }
        let open = record.state == KeyState::Free && self.record.state != KeyState::Free;
        let next = if open { self.next_waiter(env) } else { None };
        let mut flight = match next {
            Some(waiter) => self.granting(Draft { record, changes }, waiter, env),
            None => Flight::new(record, self.revision, changes),
        };
        // An offer that waited for a fence begins now.
        flight.ends = flight.write.record.state == KeyState::Offered;
        flight.cause = cause;
        self.launch(flight, out);
    }
}
