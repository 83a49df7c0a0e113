use std::{collections::BTreeSet, time::Duration};

use super::{Facts, LISTED, attention};
use crate::{
    api::Attention,
    lease::{Key, KeyState, Moment, NodeRecord, NodeState, Nonce, Owner, Token, View},
    manager::{
        ChurningPool, FailedFence, FailedFences, FailingCheck, GuardedPool, ListTrouble, NodeView,
        StuckKey, StuckKeys, UnevenPool, UnplacedPool,
    },
    store::Health,
    telemetry::{
        FileKind, NotInForce,
        audit::LostLines,
        recent::{Interruption, Interruptions, SpansSummary},
    },
    tls::{Expiry, NamedCertificates},
};

/// The node is an hour and a bit old, and the wall clock shows 10 000 s.
const NOW: Moment = Moment(4_000_000_000_000);
const WALL_MS: u64 = 10_000_000;

/// Nothing needs a person.
fn quiet() -> Facts {
    Facts {
        now: NOW,
        wall_ms: WALL_MS,
        health: Health::Ready,
        may_promise: true,
        is_stopping: false,
        fences: FailedFences::default(),
        stuck: StuckKeys::default(),
        checks: (Vec::new(), 0),
        pools: Vec::new(),
        churning: Vec::new(),
        guarded: Vec::new(),
        frozen: Vec::new(),
        unplaced: Vec::new(),
        nodes: vec![node("http://a", NodeState::Alive, 1)],
        shared_addresses: BTreeSet::new(),
        other_rules: BTreeSet::new(),
        other_access: BTreeSet::new(),
        files: Vec::new(),
        list_trouble: None,
        restart: Vec::new(),
        certificates: Vec::new(),
        lateness: SpansSummary::default(),
        expired: vec![1; 60],
        open_door: false,
        audit: None,
        audit_gaps: None,
        interruptions: Vec::new(),
    }
}

fn ago(seconds: u64) -> Moment {
    NOW - Duration::from_secs(seconds)
}

fn key(name: &str) -> Key {
    Key::new(name).expect("a key")
}

fn node(url: &str, state: NodeState, incarnation: u128) -> NodeView {
    let record = NodeRecord {
        url: url.into(),
        state,
        unseen: false,
        ..NodeRecord::unseen(Nonce(incarnation), Nonce(0))
    };
    NodeView { record, this: incarnation == 1, runs_out_in_ms: 0, since: ago(120) }
}

fn fence(name: &str, state: KeyState) -> FailedFence {
    let owner = Owner::new("old").expect("an owner");
    let view = View {
        state,
        known: true,
        quarantined: false,
        node: Some(Nonce(1)),
        elsewhere: false,
        owner: None,
        token: Token(7),
        ttl_ms: None,
        expires_in_ms: None,
        acquired_at_ms: None,
        value: None,
        spec: None,
        waiters: 2,
        pins: Box::default(),
        offered_to: None,
        previous: Some((owner.clone(), Token(7), crate::lease::ChangeKind::Expired)),
        session: None,
        fences: vec!["power".into()].into_boxed_slice(),
        fenced: Some(owner),
        fence_failed: true,
        marks: Box::default(),
        granting: None,
    };
    let reason = Some("power: exit status 3".into());
    let (pool, at_ms) = ("p".into(), Some(WALL_MS - 5_000));
    FailedFence { key: key(name), pool, view: Some(view), at_ms, reason }
}

fn kinds(facts: &Facts) -> Vec<(String, String)> {
    let (found, more) = attention(facts);
    assert_eq!(more, 0);
    found.into_iter().map(|one| (one.kind, one.severity)).collect()
}

fn only(facts: &Facts) -> Attention {
    let (mut found, _) = attention(facts);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn nothing_needs_a_person_where_all_is_well() {
    assert!(kinds(&quiet()).is_empty());
}

#[test]
fn a_failed_fence_says_which_key_is_shut_since_when_why_and_what_helps() {
    let listed = vec![fence("disks/1; reboot", KeyState::Fencing)];
    let fences = FailedFences { listed, ..FailedFences::default() };
    let one = only(&Facts { fences, ..quiet() });
    assert_eq!((&*one.kind, &*one.severity, &*one.scope), ("fence-failed", "critical", "store"));
    assert_eq!((one.key.as_deref(), one.pool.as_deref()), (Some("disks/1; reboot"), Some("p")));
    assert_eq!((one.plugin.as_deref(), one.owner.as_deref()), (Some("power"), Some("old")));
    assert_eq!((one.for_ms, one.waiters), (Some(5_000), Some(2)));
    assert_eq!(one.since.as_deref(), Some("1970-01-01T02:46:35.000Z"));
    assert!(one.says.contains("exit status 3") && one.says.contains("administrator"), "{one:?}");
    let help = one.help.expect("it helps");
    assert!(help.ends_with("tenure fence-retry --reason WHY 'disks/1; reboot'"), "{help}");
    assert_eq!(one.node.as_deref(), Some("http://a"));
    assert!(one.says.ends_with("; the log of http://a has more"), "{}", one.says);
}

#[test]
fn a_key_that_went_on_without_its_fence_is_less_severe_than_one_that_is_shut() {
    let listed = vec![fence("open", KeyState::Held), fence("shut", KeyState::Fencing)];
    let fences = FailedFences { listed, more: 0, hidden: 3 };
    let (found, _) = attention(&Facts { fences, ..quiet() });
    let told: Vec<_> = found.iter().map(|one| (one.key.as_deref(), one.count)).collect();
    assert_eq!(told, [(Some("shut"), None), (None, Some(3)), (Some("open"), None)]);
    assert!(found[1].says.starts_with("3 keys that you may not read"), "{}", found[1].says);
}

#[test]
fn many_keys_of_a_pool_that_failed_alike_have_one_entry() {
    let keys = |count| (0..count).map(|n| fence(&format!("k/{n}"), KeyState::Fencing));
    let of = |listed| attention(&Facts { fences: listed, ..quiet() }).0;
    let listed = |listed| FailedFences { listed, ..FailedFences::default() };
    assert_eq!(of(listed(keys(5).collect())).len(), 5);

    let mut failed: Vec<_> = keys(6).collect();
    failed[3].at_ms = Some(WALL_MS - 9_000);
    failed.push(fence("open", KeyState::Held));
    let found = of(listed(failed));
    let told: Vec<_> =
        found.iter().map(|one| (one.key.as_deref(), one.count, one.for_ms)).collect();
    assert_eq!(told, [(None, Some(6), Some(9_000)), (Some("open"), None, Some(5_000))]);
    let one = &found[0];
    assert!(one.says.starts_with("the fences of 6 keys of the pool \"p\" failed"), "{}", one.says);
    assert!(
        one.help
            .as_ref()
            .is_some_and(|help| help.ends_with("tenure fence-retry --reason WHY --plugin=power"))
    );
    assert_eq!((one.pool.as_deref(), one.owner.as_deref()), (Some("p"), None));
}

#[test]
fn the_most_severe_come_first_and_the_list_has_an_end() {
    let listed = (0..LISTED + 5).map(|n| {
        let reason = Some(format!("power: exit status {n}").into());
        FailedFence { reason, ..fence(&format!("k/{n}"), KeyState::Fencing) }
    });
    let listed = listed.collect();
    let fences = FailedFences { listed, ..FailedFences::default() };
    let facts = Facts { fences, open_door: true, ..quiet() };
    let (found, more) = attention(&facts);
    assert_eq!((found.len(), more), (LISTED, 6));
    assert!(found.iter().all(|one| one.severity == "critical"));
}

#[test]
fn a_store_that_does_not_work_is_critical() {
    let frozen = Health::Frozen("it has no record of x".into());
    let one = only(&Facts { health: frozen, may_promise: false, ..quiet() });
    assert_eq!((&*one.kind, &*one.severity), ("store-frozen", "critical"));
    assert!(one.says.contains("it has no record of x"), "{}", one.says);
    let full = Health::Degraded("the disk is full".into());
    assert_eq!(only(&Facts { health: full, ..quiet() }).kind, "store-not-ready");
    assert_eq!(only(&Facts { may_promise: false, ..quiet() }).kind, "node-may-not-promise");
    let stopping = Facts { is_stopping: true, may_promise: false, ..quiet() };
    assert_eq!(only(&stopping).kind, "stopping");
}

#[test]
fn a_dead_node_is_told_of_for_an_hour_unless_it_was_started_again() {
    let nodes = |url: &str, since| {
        let dead = NodeView { since, ..node("http://b", NodeState::Dead, 2) };
        let other = node(url, NodeState::Alive, 3);
        Facts { nodes: vec![node("http://a", NodeState::Alive, 1), dead, other], ..quiet() }
    };
    let one = only(&nodes("http://c", ago(120)));
    assert_eq!((&*one.kind, one.node.as_deref()), ("node-dead", Some("http://b")));
    assert_eq!(one.for_ms, Some(120_000));
    assert!(kinds(&nodes("http://c", ago(3_601))).is_empty());
    assert!(kinds(&nodes("http://b", ago(120))).is_empty(), "it was started again");
    let mut left = nodes("http://c", ago(120));
    left.nodes[1].record.state = NodeState::Drained;
    assert!(kinds(&left).is_empty(), "it left in good order");
}

#[test]
fn nodes_that_do_not_fit_together_are_named() {
    let other_rules = BTreeSet::from([Nonce(2)]);
    let nodes = vec![node("http://a", NodeState::Alive, 1), node("http://b", NodeState::Alive, 2)];
    let one = only(&Facts { nodes, other_rules, ..quiet() });
    assert_eq!((&*one.kind, one.node.as_deref()), ("rules-differ", Some("http://b")));
    let nodes = vec![node("http://a", NodeState::Alive, 1), node("http://b", NodeState::Alive, 2)];
    let other_access = BTreeSet::from([Nonce(2)]);
    let one = only(&Facts { nodes, other_access, ..quiet() });
    assert_eq!((&*one.kind, one.node.as_deref()), ("access-differs", Some("http://b")));
    let shared_addresses = BTreeSet::from(["http://x".into()]);
    let one = only(&Facts { shared_addresses, ..quiet() });
    assert_eq!((&*one.kind, one.node.as_deref()), ("address-shared", Some("http://x")));
}

#[test]
fn a_pool_may_be_out_of_balance_for_a_minute() {
    let pools = |seconds| {
        let (pool, since) = ("shards".into(), ago(seconds));
        Facts { pools: vec![UnevenPool { pool, since, moves: 4, members: 3 }], ..quiet() }
    };
    assert!(kinds(&pools(60)).is_empty());
    let one = only(&pools(61));
    assert_eq!(
        (&*one.kind, one.pool.as_deref(), one.count),
        ("pool-uneven", Some("shards"), Some(4))
    );
    assert_eq!(one.for_ms, Some(61_000));
}

#[test]
fn a_frozen_pool_with_keys_that_nobody_holds_is_named() {
    let one = only(&Facts { frozen: vec![("shards".into(), 3, 7)], ..quiet() });
    assert_eq!(
        (&*one.kind, &*one.severity, one.count, one.for_ms),
        ("pool-frozen", "warning", Some(3), Some(7))
    );
}

#[test]
fn keys_that_no_member_can_take_are_named_after_a_while() {
    let pool = |since| UnplacedPool { pool: "jobs".into(), since, unmet: 2, no_room: 1 };
    let one = only(&Facts { unplaced: vec![pool(ago(11))], ..quiet() });
    assert_eq!(
        (&*one.kind, &*one.severity, one.count, one.for_ms),
        ("pool-unplaced", "warning", Some(3), Some(11_000))
    );
    assert_eq!(
        one.says,
        "3 keys of the pool \"jobs\" cannot go to any member: no member has the labels that the policy requires (2); the \
         members that may have them accept no more (1)"
    );
    assert!(attention(&Facts { unplaced: vec![pool(ago(9))], ..quiet() }).0.is_empty());
}

#[test]
fn a_guard_against_a_mass_failure_is_critical() {
    let guarded = vec![GuardedPool { pool: "shards".into(), members: 20, left: 12, for_ms: 9 }];
    let one = only(&Facts { guarded, ..quiet() });
    assert_eq!(
        (&*one.kind, &*one.severity, one.pool.as_deref(), one.for_ms),
        ("pool-guarded", "critical", Some("shards"), Some(9))
    );
}

#[test]
fn keys_that_are_free_although_callers_wait_and_checks_that_fail_are_named() {
    let listed = vec![StuckKey { key: key("k"), pool: "p".into(), since: ago(9) }];
    let stuck = StuckKeys { listed, others: 2 };
    let (found, _) = attention(&Facts { stuck, ..quiet() });
    let told: Vec<_> =
        found.iter().map(|one| (&*one.kind, one.key.as_deref(), one.count)).collect();
    let expected = [("free-with-waiters", Some("k"), None), ("free-with-waiters", None, Some(2))];
    assert_eq!(told, expected);
    let check = FailingCheck {
        session: Nonce(5),
        owner: Owner::new("-w").expect("an owner"),
        kind: "tcp",
        failures: 2,
        fail_after: 3,
        since: ago(20),
        why: "connection refused".into(),
    };
    let one = only(&Facts { checks: (vec![check], 0), ..quiet() });
    assert_eq!(
        (&*one.kind, one.owner.as_deref(), one.count),
        ("check-failing", Some("-w"), Some(2))
    );
    assert_eq!(one.help.as_deref(), Some("tenure sessions --owner=-w"));
}

#[test]
fn late_ends_and_many_expiries_are_told() {
    let span = Duration::from_millis;
    let late = |p99| SpansSummary { count: 7, p99: span(p99), ..SpansSummary::default() };
    assert!(kinds(&Facts { lateness: late(1_000), ..quiet() }).is_empty());
    assert_eq!(only(&Facts { lateness: late(1_001), ..quiet() }).kind, "expiry-late");
    let expired = |before: Vec<u32>, latest: u32| {
        let expired = before.into_iter().chain([latest; 5]).collect();
        kinds(&Facts { expired, ..quiet() }).len()
    };
    assert_eq!(expired(vec![2; 55], 6), 0, "three times as many");
    assert_eq!(expired(vec![2; 55], 7), 1);
    assert_eq!(expired(vec![0; 55], 1), 0, "five are few");
    assert_eq!(expired(vec![0; 10], 2), 1);
    assert_eq!(expired(vec![0; 9], 100), 0, "what is usual is not known yet");
}

#[test]
fn a_pool_whose_members_do_not_keep_their_keys_is_told() {
    let one = ChurningPool { pool: "shards".into(), keys: 12, grants: 3_150 };
    let one = only(&Facts { churning: vec![one], ..quiet() });
    assert_eq!(
        (&*one.kind, one.count, one.pool.as_deref()),
        ("pool-churning", Some(12), Some("shards"))
    );
    assert!(one.says.contains("12 keys") && one.says.contains("3150"), "{}", one.says);
}

#[test]
fn what_interrupted_this_node_is_told() {
    let of = |latest| {
        let one = Interruptions { latest, at: ago(60), count: 3 };
        only(&Facts { interruptions: vec![one], ..quiet() })
    };
    let jumped = of(Interruption::ClockJump(-1_500));
    assert_eq!(
        (&*jumped.kind, jumped.count, jumped.for_ms),
        ("clock-jumped", Some(3), Some(60_000))
    );
    assert!(jumped.says.contains("-1500 ms"), "{}", jumped.says);
    for latest in [Interruption::RecordRanOut, Interruption::FoundDead] {
        let lapsed = of(latest);
        assert_eq!((&*lapsed.kind, &*lapsed.scope), ("node-lapsed", "node"));
        assert!(lapsed.help.is_some_and(|help| help.contains("TenureNodeLapsed")));
    }
}

#[test]
fn a_node_that_was_started_again_is_alive_and_not_dead() {
    let counts = |nodes| {
        let counts = Facts { nodes, ..quiet() }.node_counts();
        (counts.alive, counts.drained, counts.dead)
    };
    let (alive, dead, drained) = (NodeState::Alive, NodeState::Dead, NodeState::Drained);
    assert_eq!(counts(vec![]), (1, 0, 0), "the only process of a store");
    let nodes = vec![
        node("http://a", alive, 1),
        node("http://a", dead, 2),
        node("http://b", dead, 3),
        node("http://b", drained, 4),
        node("", dead, 5),
        node("", alive, 6),
    ];
    assert_eq!(counts(nodes), (2, 1, 2));
}

#[test]
fn lost_audit_lines_and_an_open_door_are_told() {
    let lost = |seconds| {
        let audit = Some(LostLines { count: 12, latest: ago(seconds) });
        Facts { audit, ..quiet() }
    };
    let one = only(&lost(30));
    assert_eq!((&*one.kind, one.count, one.for_ms), ("audit-lost", Some(12), Some(30_000)));
    assert!(kinds(&lost(601)).is_empty());
    let gaps = Some(LostLines { count: 1, latest: ago(5000) });
    let one = only(&Facts { audit_gaps: gaps, ..quiet() });
    assert_eq!((&*one.kind, one.count), ("audit-gap", Some(1)));
    assert_eq!(only(&Facts { open_door: true, ..quiet() }).kind, "open-door");
}

#[test]
fn a_file_that_is_not_in_force_is_told_of_with_its_first_fault() {
    let file = |kind| NotInForce {
        kind,
        reason: "access.toml:7: principal.name: is missing".into(),
        faults: 3,
        since_ms: WALL_MS - 5_000,
    };
    let files = vec![file(FileKind::Access)];
    let one = only(&Facts { files, ..quiet() });
    assert_eq!((&*one.kind, &*one.severity), ("access-not-in-force", "critical"));
    assert!(one.says.contains("access.toml:7") && one.says.contains("and 2 more"), "{}", one.says);
    assert_eq!((one.for_ms, one.count), (Some(5_000), Some(3)));
    let one = only(&Facts { files: vec![file(FileKind::Tls)], ..quiet() });
    assert_eq!((&*one.kind, &*one.severity), ("tls-not-in-force", "warning"));
    let one = only(&Facts { files: vec![file(FileKind::Settings)], ..quiet() });
    assert_eq!(&*one.kind, "settings-not-in-force");
    let restart = vec!["limits.keys".to_owned(), "server.listen".to_owned()];
    let one = only(&Facts { restart, ..quiet() });
    assert!(one.kind == "restart-needed" && one.says.contains("limits.keys, server.listen"));
}

#[test]
fn a_revocation_list_that_is_not_that_of_the_store_or_nearly_full_is_told_of() {
    let since = WALL_MS - 7_000;
    let unread = ListTrouble::Unread("no JSON".into());
    for (trouble, kind, severity) in [
        (unread, "revocations-unread", "critical"),
        (ListTrouble::WentBack, "revocations-went-back", "critical"),
        (ListTrouble::NearlyFull, "revocations-nearly-full", "warning"),
    ] {
        let one = only(&Facts { list_trouble: Some((trouble, since)), ..quiet() });
        assert_eq!((&*one.kind, &*one.severity, one.for_ms), (kind, severity, Some(7_000)));
    }
}

#[test]
fn certificates_that_are_not_valid_are_told_of_with_their_setting() {
    let named = |setting: &str| NamedCertificates {
        setting: setting.into(),
        path: "tls.pem".into(),
        are_authorities: setting == "node.ca",
        certificates: Vec::new(),
    };
    for (setting, expiry, kind, severity) in [
        ("server.tls_cert", Expiry::Over(9), "certificate-expired", "critical"),
        ("server.tls_cert", Expiry::NotYet(9), "certificate-not-yet-valid", "critical"),
        ("node.ca", Expiry::Soon(9), "certificate-expires", "warning"),
    ] {
        let one = only(&Facts { certificates: vec![(named(setting), expiry)], ..quiet() });
        assert_eq!((&*one.kind, &*one.severity), (kind, severity));
        assert!(one.says.contains(setting) && one.says.contains("1970-01-01"), "{}", one.says);
        let restarts = one.help.is_some_and(|help| help.contains("restart"));
        assert_eq!(restarts, setting == "node.ca");
    }
}
