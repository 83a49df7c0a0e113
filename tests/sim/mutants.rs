//! Each rule of the protocol is broken in turn, and seeds are run until the simulator notices: the tests of the
//! tests. A run that is noticed counts only if the same run with the rule unbroken is clean.
//!
//! `MUTANT`: only this one; `TRIES`: seeds at most; `WITHIN`: seconds for all of them together, 0 for no bound.
//! In short (unless `WITHIN` is 0) few seeds are tried of each, and a rule that needs more is no failure.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tenure::{
    clock::Chance,
    lease::{Balance, Mutant},
};

use super::{
    dice::Dice,
    plain::HELD_LONG,
    plan::{Fault, Plan, Standing, plan},
    rules,
    run::{Trial, fence_blocks, try_out},
    seeds::{THREADS, commit, mutant, number},
    store::{Direction, Kind},
    time::{SECOND, ms},
};

/// Seeds that are tried at most; in short, so many.
const TRIES: [u64; 2] = [10_000, 40];

/// In what worlds a broken rule can show at all. Which faults happen in them, and when, is chance.
pub fn fits(mutant: Mutant, plan: &Plan) -> bool {
    let has = |such: fn(&Fault) -> bool| plan.faults.iter().any(|(_, fault)| such(fault));
    let crashes = || has(|fault| matches!(fault, Fault::Crash { .. }));
    let several = plan.kind.is_shared() && plan.nodes > 1;
    let lapses = || {
        has(|fault| {
            let apart = matches!(fault, Fault::StoreCut { .. } | Fault::Alone { .. });
            apart
                || matches!(fault, Fault::Crash { .. } | Fault::Pause { .. } | Fault::Leave { .. })
        })
    };
    if mutant == Mutant::PoolRemembersLostTokens {
        return plan.goes_back && !plan.recalls();
    }
    if has(|fault| matches!(fault, Fault::Regress { .. })) {
        // What a store does after it lost acknowledged writes is promised by nobody.
        return false;
    }
    let of_pool = plan.policies.of("p/");
    let is_ordered = |what| plan.standing.is_some_and(|(standing, ..)| standing == what);
    let keys = |prefix| plan.keys.iter().any(|key| key.as_str().starts_with(prefix));
    match mutant {
        Mutant::RestartWithEmptyPromises | Mutant::RestartGraceHalved => {
            plan.kind == Kind::Embedded && crashes()
        }
        Mutant::PublishedBeforeCommit => plan.kind == Kind::Embedded && crashes(),
        Mutant::TokenRestarts => plan.kind.is_shared(),
        Mutant::TenureOutlivesEpoch => plan.kind == Kind::Embedded && plan.sessions > 0,
        Mutant::TakeOverWithoutTombstone
        | Mutant::AdoptionWithoutFloor
        | Mutant::RepeatAnsweredElsewhere
        | Mutant::HeartbeatAnsweredElsewhere
        | Mutant::PromiseAfterUntil
        | Mutant::PromiseBySentRecord
        | Mutant::RivalCountsFromBeforeItsRead
        | Mutant::TombstoneWithAuthorsInstants
        | Mutant::EndOfHomeFromOlderCopy => several && lapses(),
        Mutant::ClockStopIgnored => {
            several && has(|fault| matches!(fault, Fault::Pause { missed: true, .. }))
        }
        Mutant::LateWriteAwaited => plan.kind == Kind::Embedded,
        Mutant::GapNotReported => plan.kind == Kind::Nats,
        Mutant::OthersSessionLeasesNotIndexed => several && lapses() && plan.sessions > 0,
        Mutant::SessionLeasesNotReread => plan.kind == Kind::Nats && plan.sessions > 0,
        Mutant::EndsNotSearchedAfterGap => {
            plan.kind == Kind::DynamoDb && several && plan.sessions > 0 && plan.pool
        }
        Mutant::SessionGrantedAgain
        | Mutant::SessionFreedBeforeTombstone
        | Mutant::GrantUnderEndingSession => plan.sessions > 0,
        Mutant::FenceLost | Mutant::GrantWhileFencing | Mutant::RevivalAfterFence => keys("f/"),
        Mutant::FailedFenceOpens => keys("f/") && fence_blocks(plan),
        Mutant::FenceNotTakenOver => (keys("f/") || keys("g/")) && crashes(),
        Mutant::LockDelaySkipped => keys("d/"),
        Mutant::MinimumHoldCut => keys(HELD_LONG),
        Mutant::OrderUnstored => plan.pool,
        Mutant::FormerPolicyObeyed | Mutant::FormerNumberAnswered => !plan.reloads.is_empty(),
        Mutant::PartOfAListKept | Mutant::RefusedListRepeated | Mutant::RepeatGivenBack => {
            plan.alls > 0
        }
        Mutant::RequireIgnored => plan.placed && plan.sessions > 0,
        Mutant::FreezeIgnored => is_ordered(Standing::Freeze),
        Mutant::CordonIgnored => is_ordered(Standing::Cordon),
        Mutant::PauseIgnored => is_ordered(Standing::Pause),
        Mutant::UpgradeIgnored => plan.only_pool && plan.versions,
        Mutant::UnreadyCounted => plan.only_pool,
        Mutant::GuardIgnored => plan.only_pool && of_pool.mass_failure_within_ms > 0,
        Mutant::RejoinWindowSkipped => plan.only_pool && of_pool.rejoin_window_ms > 0,
        Mutant::PreparationSkipped | Mutant::PreparationsUnbounded => {
            plan.only_pool && of_pool.warmup_timeout_ms > 0
        }
        Mutant::MovesWithoutGain => plan.only_pool && of_pool.balance == Balance::Load,
        Mutant::HandoverCutsPromises | Mutant::RevokeCutsPromises => {
            plan.admin_every < Duration::from_secs(5)
        }
        _ => true,
    }
}

/// What a broken rule needs besides, to show.
pub fn set_stage(plan: &mut Plan, mutant: Option<Mutant>, chance: &mut Chance) {
    let Some(mutant) = mutant else { return };
    let node = |chance: &mut Chance| chance.index(plan.nodes);
    let (down, long) = (ms(100), Duration::from_secs(7));
    let mut more: Vec<Fault> = Vec::new();
    match mutant {
        // A key's actor that begins anew beside a write, or a promise cell, of the one before.
        Mutant::PromiseUnconfirmed | Mutant::CellOutlivesItsActor | Mutant::LeftWriteUnheard => {
            let panic = |_| Fault::Panic { node: node(chance) };
            more.extend((0..20).map(panic));
        }
        // A thread that is stopped just before S, and goes on while the end of the tenure is written.
        Mutant::CellOpenInAStep | Mutant::CellOpenWhileEnding => {
            plan.ttls = vec![1_500];
            plan.stops = (400, 2_500);
        }
        // Who answered or promised while a write was on its way dies.
        Mutant::FloorInMemoryOnly | Mutant::PromiseBeforeLongerTtl => {
            let crash = |_| Fault::Crash { node: node(chance), down, boot: false };
            more.extend((0..4).map(crash));
            plan.ttls = vec![1_500, 12_000, 30_000];
            (plan.impatience, plan.restless) = (500, true);
        }
        // A node that workers reach, and that does not reach the store.
        Mutant::PromiseBySentRecord | Mutant::RivalCountsFromBeforeItsRead => {
            let way = Direction::Both;
            let cut = |_| Fault::StoreCut { node: node(chance), way, span: long };
            more.extend((0..3).map(cut));
            if mutant == Mutant::RivalCountsFromBeforeItsRead {
                plan.ttls = vec![1_500];
                plan.shape.roundabout = ms(1_800);
            }
        }
        // Many calls that wait while the number of permits changes.
        Mutant::FormerPolicyObeyed | Mutant::FormerNumberAnswered => {
            plan.alls = 900;
            plan.draw_reloads(chance, 20);
        }
        // A duplicate that comes late.
        Mutant::RepeatGivenBack => {
            plan.alls = 900;
            (plan.weather.twice, plan.weather.slow, plan.weather.longest_ms) = (300, 500, 1_500);
        }
        // An answer that is lost soon after the grant, and another node that is asked.
        Mutant::RepeatAnsweredElsewhere => {
            plan.ttls = vec![1_500];
            plan.impatience = 500;
        }
        // A node that is cut off from the store for so long that the stream forgets what it missed.
        Mutant::SessionLeasesNotReread | Mutant::EndsNotSearchedAfterGap => {
            let way = Direction::Both;
            let cut = |_| Fault::StoreCut { node: node(chance), way, span: long };
            more.extend((0..4).map(cut));
            if mutant == Mutant::EndsNotSearchedAfterGap {
                plan.shape.history = 8;
            } else {
                plan.shape.keep = 1;
            }
        }
        // A node that does not come to read what others write about themselves.
        Mutant::EndOfHomeFromOlderCopy => {
            let crash = |_| Fault::Crash { node: node(chance), down, boot: false };
            more.extend((0..5).map(crash));
            plan.shape.deaf = 0.8;
        }
        Mutant::ClockStopIgnored => {
            let pause = |_| Fault::Pause { node: node(chance), span: long, missed: true };
            more.extend((0..3).map(pause));
        }
        // A disk that hangs for so long that who waits for it should have heard.
        Mutant::LateWriteAwaited => {
            more.push(Fault::StoreStop(Duration::from_secs(30)));
            plan.calm += 30 * SECOND;
            plan.stop += 30 * SECOND;
        }
        // A store that is restored from a copy, under another epoch.
        Mutant::TenureOutlivesEpoch => {
            let copied = ms(1_500);
            more.push(Fault::Regress { copied, raised: Duration::ZERO });
        }
        // What nodes knew is not corrected by later grants.
        Mutant::PoolRemembersLostTokens => {
            plan.sessions = 900;
            plan.ttls = vec![1_500];
        }
        Mutant::FailedFenceOpens => plan.manners.fails = 900,
        // Nobody else is to end what no plugin does.
        Mutant::FenceNotTakenOver => {
            plan.skips_fences = false;
            (plan.manners.fails, plan.manners.panics, plan.manners.hangs) = (0, 0, 0);
            plan.manners.slow_ms = 800;
            let crash = |_| Fault::Crash { node: node(chance), down, boot: false };
            more.extend((0..4).map(crash));
        }
        _ => {}
    }
    let slow_writes = [
        Mutant::PromiseUnconfirmed,
        Mutant::LeftWriteUnheard,
        Mutant::PromiseBeforeLongerTtl,
        Mutant::CellOpenInAStep,
        Mutant::CellOpenWhileEnding,
    ];
    if slow_writes.contains(&mutant) {
        let slow = (ms(30), ms(700));
        (plan.shape.hop, plan.shape.sync) = (slow, slow);
    }
    for fault in more {
        plan.faults.push((chance.between(SECOND, plan.calm - SECOND), fault));
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}

/// What was noticed of a run: the invariant, or how it ended.
fn noticed(seed: u64, trial: Trial, commit: &str) -> Option<String> {
    let outcome = try_out(seed, trial, commit);
    let (report, breaches) = rules::judge(outcome.log.lines(), &outcome.world);
    if let Some(violation) = report.violations.first() {
        return Some(violation.invariant.to_owned());
    }
    if let Some(rule) = breaches.first() {
        return Some(rule.rule.to_owned());
    }
    let lost = rules::never_raised(&outcome.log.lines());
    let wrong = outcome.wrong.iter().find(|what| !lost || !what.starts_with("I8"))?;
    Some(if wrong.contains("panicked") { "panic".to_owned() } else { "I8".to_owned() })
}

/// What came of the search.
#[derive(Clone, Debug, Default)]
struct Search {
    caught: Option<(u64, String)>,
    /// Seeds whose world fits.
    runs: u64,
    took: Duration,
}

fn search(mutant: Mutant, tries: u64, until: Option<Instant>, commit: &str) -> Search {
    let began = Instant::now();
    let (next, runs) = (AtomicU64::new(1), AtomicU64::new(0));
    let caught: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let trial = Trial { stage: Some(mutant), broken: Some(mutant) };
    let one_thread = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let over = until.is_some_and(|until| Instant::now() >= until);
            let found = |found: &(u64, String)| found.0 < seed;
            let earlier = caught.lock().unwrap_or_else(PoisonError::into_inner);
            if seed > tries || over || earlier.as_ref().is_some_and(found) {
                return;
            }
            drop(earlier);
            if !fits(mutant, &plan(seed)) {
                continue;
            }
            runs.fetch_add(1, Ordering::Relaxed);
            let Some(invariant) = noticed(seed, trial, commit) else { continue };
            let innocent = Trial { broken: None, ..trial };
            if let Some(also) = noticed(seed, innocent, commit) {
                println!("seed {seed} shows {also} although no rule is broken");
                continue;
            }
            let mut caught = caught.lock().unwrap_or_else(PoisonError::into_inner);
            if caught.as_ref().is_none_or(|caught| seed < caught.0) {
                *caught = Some((seed, invariant));
            }
        }
    };
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(one_thread)));
    });
    let caught = caught.into_inner().unwrap_or_else(PoisonError::into_inner);
    Search { caught, runs: runs.into_inner(), took: began.elapsed() }
}

/// Runs the seeds from `FROM` on in the world of a broken rule, with no rule broken.
#[test]
#[ignore = "to look into what `mutants` says of a stage"]
fn stage() {
    let (from, seeds) = (number("FROM").unwrap_or(1), number("SEEDS").unwrap_or(1));
    for seed in from..from + seeds {
        let outcome = try_out(seed, Trial { stage: mutant(), broken: None }, "stage");
        let (report, breaches) = rules::judge(outcome.log.lines(), &outcome.world);
        println!("seed {seed}: {:?}\n{breaches:?}\n{report}", outcome.wrong);
        if let Ok(path) = std::env::var("LOG") {
            outcome.log.write_to(std::path::Path::new(&path)).expect("it is written");
        }
    }
}

#[test]
fn mutants() {
    let within = number("WITHIN").unwrap_or(30);
    let short = within > 0;
    let tries = number("TRIES").unwrap_or(TRIES[usize::from(short)]);
    let until = (within > 0).then(|| Instant::now() + Duration::from_secs(within));
    let commit = commit();
    let asked = mutant();
    let all = Mutant::ALL.into_iter().filter(|one| asked.is_none_or(|asked| asked == *one));
    let (mut passed, mut failed) = (0, 0);
    println!("| broken rule | seed | runs | noticed as | seconds |");
    println!("| --- | --- | --- | --- | --- |");
    for mutant in all {
        if ELSEWHERE.contains(&mutant) && asked.is_none() {
            println!("| {mutant:?} | | | by other tests: docs/proof.md | |");
            continue;
        }
        let Search { caught, runs, took } = search(mutant, tries, until, &commit);
        let seconds = took.as_secs_f64();
        match caught {
            Some((seed, invariant)) => {
                passed += 1;
                println!("| {mutant:?} | {seed} | {runs} | {invariant} | {seconds:.1} |");
            }
            None if short => {
                let why = if runs == 0 { "no time left" } else { "not in short" };
                println!("| {mutant:?} | {why} | {runs} | | {seconds:.1} |");
            }
            None => {
                failed += 1;
                println!("| {mutant:?} | NEVER | {runs} | | {seconds:.1} |");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    assert!(passed > 0, "no broken rule was tried at all");
    assert_eq!(failed, 0, "{failed} broken rules were not noticed");
}

/// Rules whose breach other tests notice, which docs/proof.md names: no history shows it, or for some moments only,
/// after a chain of chances that thousands of seeds did not have (a ttl that is shortened, a heartbeat beside that
/// write, a crash, a silent holder, and a rival in the moments between what the record says and what was promised).
const ELSEWHERE: [Mutant; 16] = [
    // The simulated workers cannot say what a grant of which none was told leaves behind: a rival may have come first.
    Mutant::UnheardHoldKept,
    // No run of a few seconds blocks two calls so that they show it.
    Mutant::AnyPermitKept,
    Mutant::GrantToACallerThatLeft,
    Mutant::ClaimIgnored,
    Mutant::ClaimKeptAfterUnknown,
    // The order of a queue is no invariant of a history: callers at other nodes may be served first.
    Mutant::PlaceForgotten,
    Mutant::HeartbeatAbsorbedWhileShortening,
    // A repeated call must be served for longer than the session's promise lasts. One seed in 200 000 does that.
    Mutant::EndDuringACallUnseen,
    // A node must be away while another one adopts the lease, tells of it, and dies in its turn. One seed in 200 000 does
    // that.
    Mutant::GivenBackElsewhere,
    // The store must go back while a node knows of its own grant and the feed does not yet, and no end of that key may
    // follow in the feed: an end corrects the account, under any token.
    Mutant::QuotaRemembersLostTokens,
    // The simulated workers have no principals.
    Mutant::AnyPrincipalActs,
    // The simulated workers take no permits.
    Mutant::AnyPermitAwaited,
    // It needs a second thread, which the simulator has not.
    Mutant::JumpHandledAfterTheReading,
    // The actors hear of the new incarnation before it has a record and may promise.
    Mutant::CellOfAnotherIncarnation,
    // The holder must revive its tenure after another one was offered its key, and the offer was withdrawn by a token
    // that was read before. One seed in 100 000 does that.
    Mutant::TokenWithdrawsOffer,
    // A store that went backwards is not judged until its epoch was raised.
    Mutant::PromiseUnregistered,
];
