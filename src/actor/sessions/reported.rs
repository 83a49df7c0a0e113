//! The loads that the heartbeats of a session report.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    actor::pools::{Pool, Pools},
    lease::{
        Key, LeaseId, Moment, Nonce,
        load::Load,
        reports::{MAX_REPORT_BYTES, Report, Reports},
    },
};

/// Loads are stored soon after a report, or not before the next one: a write counts as a heartbeat.
const SOON: Duration = Duration::from_secs(2);

/// What a session's heartbeats reported.
#[derive(Default)]
pub struct Reported {
    state: Mutex<State>,
    /// Held by whoever changes what the session's record says of the member.
    pub record: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    reports: Option<Reports>,
    /// The last heartbeat with loads that are not stored: its proof, and when it was received.
    last: Option<(LeaseId, Moment)>,
}

/// Loads that must be stored.
pub struct Due {
    pub proof: LeaseId,
    pub received: Moment,
    pub loads: BTreeMap<Box<str>, Load>,
    pub limit: Option<Load>,
}

impl Reported {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a report of a session that joined this pool. The loads of keys that it does not hold do not count.
    ///
    /// # Errors
    /// How many bytes the loads of its keys would need, if that is too many. They stay as they were.
    pub fn report(
        &self,
        (pools, pool, session): (&Pools, &str, Nonce),
        (proof, received): (LeaseId, Moment),
        report: &Report,
    ) -> Result<(), usize> {
        let said = pools.announced(session).unwrap_or_default();
        let note = |pool: &mut Pool| {
            let state = &mut *self.state();
            let begin = || Reports::of_stored(&said.loads, said.load_limit, received);
            let reports = state.reports.get_or_insert_with(begin);
            reports.keep_only(|key| pool.has(session, key));
            let held = || report.loads.iter().filter(|(key, _)| pool.has(session, key));
            let bytes = reports.bytes_with(held());
            if bytes > MAX_REPORT_BYTES {
                return Err(bytes);
            }
            let known = |key: &Key| pool.loads.get(key).copied();
            reports.report(held().cloned(), report.limit, known, received);
            state.last = Some((proof, received));
            Ok(())
        };
        pools.change(pool, note).unwrap_or(Ok(()))
    }

    /// A heartbeat reported nothing new. What was reported before may be stored with it.
    pub fn beat(&self, proof: LeaseId, received: Moment) {
        let state = &mut *self.state();
        if state.reports.is_some() {
            state.last = Some((proof, received));
        }
    }

    /// What must be stored now: loads that differ from the stored ones by more than this part of them.
    pub fn due(&self, part: f64, now: Moment) -> Option<Due> {
        let state = &mut *self.state();
        let (proof, received) = state.last.filter(|(_, at)| now.since(*at) < SOON)?;
        let (loads, limit) = state.reports.as_ref()?.due(part, now)?;
        state.last = None;
        Some(Due { proof, received, loads, limit })
    }

    /// These loads are stored.
    pub fn stored(&self, loads: &BTreeMap<Box<str>, Load>, limit: Option<Load>, now: Moment) {
        if let Some(reports) = &mut self.state().reports {
            reports.stored(loads.clone(), limit, now);
        }
    }
}
