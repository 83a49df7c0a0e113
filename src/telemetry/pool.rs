//! Handles to the metric series of one pool.

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::metrics::{AcquireOutcome, HeartbeatOutcome};
use crate::lease::{Change, ChangeKind, Unplaced};

/// Handles to every series with a pool label.
pub struct PoolMetrics {
    acquisitions: [Counter; 3],
    heartbeats: [Counter; 4],
    ended: [Counter; ENDS.len()],
    transfers: Counter,
    /// The outcomes of requests to hand over.
    pub handovers: HandoverMetrics,
    /// The outcomes of preparations.
    pub warmups: WarmupMetrics,
    /// Leases that are held now.
    pub held: Gauge,
    /// Sessions that are members of the pool.
    pub sessions: Gauge,
    pub waiters: Gauge,
    acquire_seconds: Histogram,
    hold_seconds: Histogram,
    vacancy_seconds: Histogram,
    margin: Histogram,
    /// Leases adopted from dead nodes.
    pub adoptions: Counter,
    members: Gauge,
    imbalance: Gauge,
    guarded: Gauge,
    load_peak: Gauge,
    unplaced: [Gauge; Unplaced::ALL.len()],
    vacant: Gauge,
}

/// Handles to the counters of hand-overs.
pub struct HandoverMetrics {
    requested: Counter,
    /// The holder handed over or released.
    pub handed_over: Counter,
    /// The holder did neither in time, and the lease was revoked.
    pub timed_out: Counter,
}

/// Handles to the counters of preparations for planned moves.
pub struct WarmupMetrics {
    ready: Counter,
    timed_out: Counter,
    cancelled: Counter,
}

impl WarmupMetrics {
    fn register(pool: &impl Fn() -> String) -> Self {
        let [ready, timed_out, cancelled] = ["ready", "timed-out", "cancelled"].map(
            |outcome| counter!("tenure_pool_warmups_total", "pool" => pool(), "outcome" => outcome),
        );
        Self { ready, timed_out, cancelled }
    }

    /// Records that a holder is asked because the next one is prepared, or because its time is over.
    pub fn over(&self, ready: bool) {
        if ready { &self.ready } else { &self.timed_out }.increment(1);
    }

    /// Records preparations that ended before a holder was asked.
    pub fn cancelled(&self, count: u64) {
        self.cancelled.increment(count);
    }
}

impl HandoverMetrics {
    fn register(pool: &impl Fn() -> String) -> Self {
        let [requested, handed_over, timed_out] = ["requested", "handed-over", "timed-out"].map(
            |outcome| counter!("tenure_handovers_total", "pool" => pool(), "outcome" => outcome),
        );
        Self { requested, handed_over, timed_out }
    }
}

/// The reasons of [`PoolMetrics::changed`], in the order of their counters.
const ENDS: [ChangeKind; 6] = [
    ChangeKind::Released,
    ChangeKind::Expired,
    ChangeKind::Revoked,
    ChangeKind::Reclaimed,
    ChangeKind::Transferred,
    ChangeKind::SessionEnded,
];

impl PoolMetrics {
    /// Registers the pool's series with the installed recorder, with the value 0. The series of a pool that was already
    /// registered continue.
    #[must_use]
    pub fn register(pool: &str) -> Arc<Self> {
        let pool = || pool.to_owned();
        Arc::new(Self {
            acquisitions: ["granted", "held", "error"].map(|outcome| {
                counter!("tenure_lease_acquisitions_total", "pool" => pool(), "outcome" => outcome)
            }),
            heartbeats: ["alive", "revived", "lost", "error"].map(|outcome| {
                counter!("tenure_lease_heartbeats_total", "pool" => pool(), "outcome" => outcome)
            }),
            ended: ENDS.map(|kind| {
                counter!("tenure_lease_ended_total", "pool" => pool(), "reason" => kind.as_str())
            }),
            transfers: counter!("tenure_lease_transfers_total", "pool" => pool()),
            handovers: HandoverMetrics::register(&pool),
            warmups: WarmupMetrics::register(&pool),
            held: gauge!("tenure_leases_held", "pool" => pool()),
            sessions: gauge!("tenure_sessions", "pool" => pool()),
            waiters: gauge!("tenure_lease_waiters", "pool" => pool()),
            acquire_seconds: histogram!("tenure_lease_acquire_duration_seconds", "pool" => pool()),
            hold_seconds: histogram!("tenure_lease_hold_duration_seconds", "pool" => pool()),
            vacancy_seconds: histogram!("tenure_lease_vacancy_duration_seconds", "pool" => pool()),
            margin: histogram!("tenure_heartbeat_margin_ratio", "pool" => pool()),
            adoptions: counter!("tenure_lease_adoptions_total", "pool" => pool()),
            members: gauge!("tenure_pool_members", "pool" => pool()),
            imbalance: gauge!("tenure_pool_imbalance", "pool" => pool()),
            load_peak: gauge!("tenure_pool_load_peak", "pool" => pool()),
            unplaced: Unplaced::ALL
                .map(|why| gauge!("tenure_pool_unplaced", "pool" => pool(), "why" => why.as_str())),
            guarded: gauge!("tenure_pool_guarded", "pool" => pool()),
            vacant: gauge!("tenure_pool_vacant", "pool" => pool()),
        })
    }

    /// Records the answer to an acquire.
    pub fn acquired(&self, outcome: AcquireOutcome, took: Duration) {
        self.acquisitions[outcome as usize].increment(1);
        if outcome == AcquireOutcome::Granted {
            self.acquire_seconds.record(took);
        }
    }

    /// Records the answer to a heartbeat.
    pub fn heartbeat(&self, outcome: HeartbeatOutcome) {
        self.heartbeats[outcome as usize].increment(1);
    }

    /// Records the share of the ttl that was left when a heartbeat arrived.
    pub fn margin(&self, ratio: f64) {
        self.margin.record(ratio);
    }

    /// Records a change that this node wrote, when it becomes public.
    pub fn changed(&self, change: &Change) {
        let kind = change.kind;
        if let Some(at) = ENDS.iter().position(|end| *end == kind)
            && change.previous.is_some()
        {
            // Without a previous owner, an offer was withdrawn and no tenure ended.
            self.ended[at].increment(1);
        }
        if kind == ChangeKind::HandoverRequested {
            self.handovers.requested.increment(1);
        }
        if kind == ChangeKind::Transferred {
            self.transfers.increment(1);
        }
    }

    /// Sets the number of members, of leases that would have to move, and of keys that nobody holds.
    pub fn balance(&self, members: usize, moves: usize, vacant: usize) {
        let float = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        self.members.set(float(members));
        self.imbalance.set(float(moves));
        self.vacant.set(float(vacant));
    }

    /// Sets whether a guard against a mass failure stands.
    pub fn guarded(&self, stands: bool) {
        self.guarded.set(if stands { 1.0 } else { 0.0 });
    }

    /// Sets what the most loaded member carries, as a part of the mean, if leases move by load.
    pub fn load_peak(&self, peak: Option<f64>) {
        self.load_peak.set(peak.unwrap_or(0.0));
    }

    /// Sets how many keys have no member to go to, for each reason.
    pub fn unplaced(&self, count: impl Fn(Unplaced) -> usize) {
        for (why, gauge) in Unplaced::ALL.into_iter().zip(&self.unplaced) {
            gauge.set(f64::from(u32::try_from(count(why)).unwrap_or(u32::MAX)));
        }
    }

    /// Records how long a tenure lasted.
    pub fn held_for(&self, span: Duration) {
        self.hold_seconds.record(span);
    }

    /// Records how long a key was free.
    pub fn vacant_for(&self, span: Duration) {
        self.vacancy_seconds.record(span);
    }
}
