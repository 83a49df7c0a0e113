//! Announces each change that the store committed to everything that hears of changes.

use crate::{
    actor::{coordinator::Coordinator, mail::Mail},
    lease::{Change, Elsewhere},
    store::{Committed, Tie},
    telemetry::trace,
};

/// Hears of a change. The flag: this node wrote it.
type Listener = fn(&Coordinator, &Committed, bool);

/// Who hears of each change, in this order. The subscribers of the bus come last.
const LISTENERS: [Listener; 9] =
    [revocations, pools, handovers, index, sessions, quotas, lease_actors, records, followers];

pub fn announce(coordinator: &Coordinator, committed: Committed) {
    let own = coordinator.is_own(committed.node);
    for hears in LISTENERS {
        hears(coordinator, &committed, own);
    }
    // Subscribers learn of a session's changes from the changes of its leases. Nobody learns of a notifier's.
    if !committed.key.is_internal() {
        coordinator.bus.publish(committed);
    }
}

/// Changes were missed: what is known only from changes is read again.
pub fn missed_some(coordinator: &Coordinator) {
    let epoch = coordinator.store.meta().epoch;
    if coordinator.protocol.ends_of_sessions_are_searched_for_after_a_gap() {
        coordinator.sessions.missed_changes();
        coordinator.pools.missed_changes(epoch);
    }
    coordinator.quotas.missed_changes(epoch);
    coordinator.revocations.notify_one();
    coordinator.registry.tell_all(|| Mail::Stale(Elsewhere::Unheard));
}

fn revocations(coordinator: &Coordinator, committed: &Committed, _: bool) {
    if committed.key.is_of_revocations() {
        coordinator.revocations.notify_one();
    }
}

fn pools(coordinator: &Coordinator, committed: &Committed, own: bool) {
    coordinator.pools.heard(coordinator, committed, own);
}

fn handovers(coordinator: &Coordinator, committed: &Committed, _: bool) {
    coordinator.sessions.heard_of_handover(coordinator, &committed.key, &committed.change);
}

fn index(coordinator: &Coordinator, committed: &Committed, own: bool) {
    if coordinator.protocol.a_node_indexes_the_leases_of_sessions(own) {
        let tie = Tie::of_change(&committed.key, &committed.change);
        coordinator.sessions.index.heard(tie);
    }
}

fn sessions(coordinator: &Coordinator, committed: &Committed, own: bool) {
    if let Some(over) = coordinator.sessions.heard(committed, own) {
        // The grant landed after the session's end.
        let key = committed.key.as_str();
        coordinator.registry.tell(key, || Mail::Stale(of(&committed.change)));
        coordinator.registry.tell(key, || Mail::SessionOver(over));
    }
}

fn quotas(coordinator: &Coordinator, committed: &Committed, _: bool) {
    coordinator.quotas.heard(&committed.key, &committed.change);
}

/// The actor of a key knows the changes that it wrote. It does not know the changes that an earlier actor of the key wrote.
fn lease_actors(coordinator: &Coordinator, committed: &Committed, own: bool) {
    let (registry, key) = (&coordinator.registry, committed.key.as_str());
    let was_left = || {
        registry.is_unsettled(key) && coordinator.protocol.an_actor_hears_of_writes_that_were_left()
    };
    if !own || was_left() {
        registry.tell(key, || Mail::Stale(of(&committed.change)));
    }
}

fn of(change: &Change) -> Elsewhere {
    Elsewhere::Change { seq: change.seq, token: change.token }
}

/// Whoever keeps single leases by a stream. A session tells its own followers.
fn followers(coordinator: &Coordinator, committed: &Committed, _: bool) {
    if !committed.key.is_internal() {
        coordinator.followers.heard(&committed.key, &committed.change);
    }
}

/// Metrics, what happened lately, and the log of ownership changes.
fn records(coordinator: &Coordinator, committed: &Committed, own: bool) {
    let Committed { key, change, at_ms, .. } = committed;
    if key.is_internal() {
        return;
    }
    coordinator.metrics.published.increment(1);
    let now = coordinator.clock.now();
    let table = coordinator.policy_table();
    let (policy, pool) = table.of(key.as_str());
    coordinator.recent.changed(now, key, policy, change, *at_ms);
    if own {
        pool.changed(change);
        let write = || coordinator.ownership_log.write(key, change, now);
        let left_out = match coordinator.traced_changes.take(key, change.seq) {
            Some(trace) => trace::within(&trace, write),
            None => write(),
        };
        coordinator.metrics.lines_suppressed.increment(left_out);
    }
}
