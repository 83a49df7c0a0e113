//! What happens under faults: of two writes one wins, an ambiguous one settles, what was answered is there,
//! the history has no hole that is not said, a store that went back is noticed, and a seed replays.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure::{
    clock::{Chance, Clock},
    lease::{ChangeKind, Epoch, Key, KeyState, Moment, Nonce, Record, Revision, StoreError},
    store::{Found, Health, LeaseStore, Position, Write, WriteOutcome},
};
use tokio::time::{Instant, sleep};

use crate::history::{Event, Line, Log, Sight};

use crate::simstore::store::{Direction, Kind, Server, Shape};

use crate::stores::lab::{
    Listener, assert_whole, change, commit, grant, held, history, key, raise, released,
};

const NODES: usize = 3;

/// Simulated time, the same for everybody.
struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.elapsed().as_nanos()).expect("centuries"))
    }

    fn wall_ms(&self) -> u64 {
        1_000 + u64::try_from(self.0.elapsed().as_millis()).expect("centuries")
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time")]
fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock(Instant::now()))
}

fn simulate<T>(run: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    runtime.build().expect("a runtime").block_on(run)
}

async fn opened(server: &Server, node: usize) -> Arc<dyn LeaseStore> {
    for _ in 0..200 {
        match server.open(node, clock()).await {
            Ok(store) => return store,
            Err(_) => sleep(Duration::from_millis(250)).await,
        }
    }
    panic!("it does not open");
}

/// A counter that goes up by one with each write, by whoever writes; an ambiguous write is settled by its nonce.
struct Counter {
    key: Key,
    /// Written, or perhaps: by nonce, whether it was acknowledged.
    sent: BTreeMap<Nonce, Option<Revision>>,
    refused: Vec<Nonce>,
    /// For how long a write may take.
    longest: Moment,
}

impl Counter {
    fn new(name: &str, kind: Kind) -> Self {
        // A disk may hang for a minute.
        let longest = Moment(if kind.is_shared() { 12 } else { 72 } * 1_000_000_000);
        Self { key: key(name), sent: BTreeMap::new(), refused: Vec::new(), longest }
    }

    /// One attempt.
    async fn step(&mut self, store: &Arc<dyn LeaseStore>) {
        let began = clock();
        let there = store.read(&self.key).await;
        assert!(began.now() < Moment(12_000_000_000), "a read resolves within some seconds");
        let Ok(there) = there else { return };
        let (expected, seq) = there.map_or((Revision::ABSENT, 0), |found| {
            (found.revision, found.record.expect("sound").seq)
        });
        let write = grant(&self.key, expected, seq + 1);
        let nonce = write.record.nonce;
        let began = clock();
        let outcome = store.compare_and_set(write).await;
        assert!(began.now() < self.longest, "a write resolves within some seconds");
        match outcome {
            WriteOutcome::Committed(revision) => {
                assert!(revision > expected, "{revision:?} after {expected:?}");
                self.sent.insert(nonce, Some(revision));
            }
            WriteOutcome::Unknown(_) => drop(self.sent.insert(nonce, None)),
            WriteOutcome::Conflict(Some(found)) => assert_ne!(found.revision, expected),
            WriteOutcome::Conflict(None) | WriteOutcome::Refused(_) => self.refused.push(nonce),
        }
    }
}

/// Some fault, or the end of one.
fn disturb(server: &Server, chance: &mut Chance) {
    let node = usize::try_from(chance.next_u64()).unwrap_or(0) % NODES;
    let cuts = [Direction::Requests, Direction::Replies, Direction::Both];
    match chance.next_u64() % 14 {
        0 => server.cut(node, cuts[node % 3]),
        1..=3 => (0..NODES).for_each(|node| server.heal(node)),
        4 => server.stop(),
        5..=7 => server.start(),
        8 => server.gap(node),
        9 => server.step_down(),
        10 => server.late(0.2),
        11 => server.throttle(0.2),
        12 => server.lose(0.1),
        _ => server.slow(Some((Duration::ZERO, Duration::from_millis(800)))),
    }
}

fn calm(server: &Server) {
    (0..NODES).for_each(|node| server.heal(node));
    server.start();
    server.late(0.0);
    server.throttle(0.0);
    server.lose(0.0);
    server.slow(None);
    server.full(false);
}

/// Three processes count on some keys while the store is disturbed; returns what was written down.
async fn turmoil(kind: Kind, seed: u64) -> Vec<Line> {
    let mut chance = Chance::new(seed);
    let mut shape = Shape::drawn(kind, &mut chance);
    // What is forgotten is tested elsewhere.
    (shape.keep, shape.history) = (10_000, 100_000);
    let log = Log::default();
    let server = Server::new(kind, Chance::new(chance.next_u64()), log.clone(), shape);
    let nodes = if kind.is_shared() { NODES } else { 1 };
    let mut stores = Vec::new();
    for node in 0..nodes {
        stores.push(opened(&server, node).await);
    }
    let mut counters: Vec<Counter> =
        (0..4).map(|n| Counter::new(&format!("c/{n}"), kind)).collect();
    for step in 0..400_usize {
        let node = usize::try_from(chance.next_u64()).unwrap_or(0) % nodes;
        let at = step % counters.len();
        counters[at].step(&stores[node]).await;
        if step % 10 == 0 {
            disturb(&server, &mut chance);
        }
        if step % 67 == 66 {
            // Killed with a write on its way, and started anew.
            let there = stores[node].read(&counters[at].key).await;
            if let Ok(Some(there)) = there {
                let seq = there.record.expect("sound").seq + 1;
                let write = grant(&counters[at].key, there.revision, seq);
                counters[at].sent.insert(write.record.nonce, None);
                drop(stores[node].compare_and_set(write));
            }
            server.crashed(node);
            server.start();
            server.heal(node);
            stores[node] = opened(&server, node).await;
        }
    }
    calm(&server);
    sleep(Duration::from_secs(15)).await;
    judge(&server, &stores[0], &counters, kind).await;
    log.lines()
}

/// What a key holds; an answer may still be late.
async fn read(store: &Arc<dyn LeaseStore>, key: &Key) -> Found {
    for _ in 0..20 {
        if let Ok(there) = store.read(key).await {
            return there.expect("it was written");
        }
    }
    panic!("the store does not come back");
}

async fn judge(server: &Server, store: &Arc<dyn LeaseStore>, counters: &[Counter], kind: Kind) {
    for counter in counters {
        let there = read(store, &counter.key).await;
        let (record, revision) = (there.record.expect("sound"), there.revision);
        let acknowledged: Vec<Revision> = counter.sent.values().flatten().copied().collect();
        let mut unique = acknowledged.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), acknowledged.len(), "two writes under one revision");
        assert!(acknowledged.iter().all(|one| *one <= revision), "an acknowledged write is lost");
        assert!(acknowledged.len() as u64 <= record.seq, "an acknowledged write is lost");
        assert!(!counter.refused.contains(&record.nonce), "what was refused is there");
        assert!(counter.sent.contains_key(&record.nonce), "nobody sent it");
    }
    // A process that was opened just now, so that it replays what is kept.
    let after = Position::default();
    server.crashed(0);
    let again = opened(server, 0).await;
    // A dead process's changes are logged by whoever overwrites them.
    for counter in counters {
        loop {
            let there = read(&again, &counter.key).await;
            let seq = there.record.expect("sound").seq;
            let write = grant(&counter.key, there.revision, seq + 1);
            if let WriteOutcome::Committed(_) = again.compare_and_set(write).await {
                break;
            }
        }
    }
    sleep(Duration::from_secs(5)).await;
    let all = history(&again, after, 50).await;
    assert_whole(&all);
    for counter in counters {
        let last = all.iter().rfind(|change| change.key == counter.key).expect("its changes");
        let there = read(&again, &counter.key).await;
        assert_eq!(last.change.seq, there.record.expect("sound").seq, "{kind:?}");
    }
}

fn every_seed(kind: Kind, seeds: u64) {
    let (mut ambiguous, mut stale, mut gaps) = (0, 0, 0);
    for seed in 1..=seeds {
        println!("{} seed {seed}", kind.as_str());
        let lines = simulate(turmoil(kind, seed));
        let count = |sight| lines.iter().filter(|l| l.event == Event::Seen { sight }).count();
        ambiguous += count(Sight::Ambiguous);
        stale += count(Sight::StaleRead);
        gaps += count(Sight::FeedGap);
    }
    println!("{}: {ambiguous} ambiguous, {stale} stale reads, {gaps} gaps", kind.as_str());
    assert!(!kind.is_shared() || ambiguous > 0);
    assert!(kind != Kind::Nats || stale > 0 && gaps > 0);
}

#[test]
fn an_embedded_store_in_turmoil_keeps_its_promises() {
    every_seed(Kind::Embedded, 40);
}

#[test]
fn a_stream_in_turmoil_keeps_its_promises() {
    every_seed(Kind::Nats, 40);
}

#[test]
fn a_table_in_turmoil_keeps_its_promises() {
    every_seed(Kind::DynamoDb, 40);
}

#[test]
fn the_same_seed_gives_the_same_log() {
    for kind in Kind::ALL {
        // Nonces of the lab are given once a process, and are in no line.
        let lines = |seed| format!("{:?}", simulate(turmoil(kind, seed)));
        assert!(lines(5) == lines(5), "{kind:?}");
        assert!(lines(5) != lines(6), "{kind:?}");
    }
}

/// Of writes on one revision one wins, also when their answers are lost.
#[test]
fn of_two_writes_on_one_revision_one_wins() {
    for kind in Kind::ALL {
        for seed in 0..50 {
            simulate(async {
                let mut shape = Shape::of(kind);
                shape.lost = 0.3;
                let server = Server::new(kind, Chance::new(seed), Log::default(), shape);
                let nodes = if kind.is_shared() { 2 } else { 1 };
                let mut stores = Vec::new();
                for node in 0..nodes {
                    stores.push(opened(&server, node).await);
                }
                let key = key("k");
                let writes: Vec<_> = (0..8).map(|_| grant(&key, Revision::ABSENT, 1)).collect();
                let sent: Vec<_> = writes
                    .iter()
                    .enumerate()
                    .map(|(n, write)| stores[n % nodes].compare_and_set(write.clone()))
                    .collect();
                let mut won = Vec::new();
                for (outcome, write) in sent.into_iter().zip(&writes) {
                    if let WriteOutcome::Committed(_) = outcome.await {
                        won.push(write.record.nonce);
                    }
                }
                server.lose(0.0);
                sleep(Duration::from_secs(5)).await;
                let there = stores[0].read(&key).await.expect("read").expect("one won");
                let there = there.record.expect("sound").nonce;
                assert!(won.is_empty() || won == [there], "{won:?} {there:?}");
            });
        }
    }
}

/// What was answered survives, and of what was not a first part.
#[test]
fn a_crash_of_the_embedded_store_loses_from_some_point_on() {
    let (mut some, mut none, mut all) = (0, 0, 0);
    for seed in 0..100 {
        simulate(async {
            let mut shape = Shape::of(Kind::Embedded);
            shape.sync = (Duration::from_millis(5), Duration::from_millis(6));
            let server = Server::new(Kind::Embedded, Chance::new(seed), Log::default(), shape);
            let store = opened(&server, 0).await;
            let durable = commit(&store, grant(&key("before"), Revision::ABSENT, 1)).await;
            let keys: Vec<Key> = (0..6).map(|n| key(&format!("k/{n}"))).collect();
            let sent: Vec<_> = keys
                .iter()
                .map(|key| store.compare_and_set(grant(key, Revision::ABSENT, 1)))
                .collect();
            sleep(Duration::from_millis(2)).await;
            server.crashed(0);
            drop((sent, store));
            let again = opened(&server, 0).await;
            assert_eq!(
                again.read(&key("before")).await.expect("read").map(|f| f.revision),
                Some(durable)
            );
            let mut there = Vec::new();
            for key in &keys {
                there.push(again.read(key).await.expect("read").is_some());
            }
            let survived = there.iter().take_while(|there| **there).count();
            assert!(there[survived..].iter().all(|there| !there), "a hole: {there:?}");
            let revision = commit(&again, grant(&key("after"), Revision::ABSENT, 1)).await;
            assert_eq!(revision.0, durable.0 + survived as u64 + 1);
            match survived {
                0 => none += 1,
                6 => all += 1,
                _ => some += 1,
            }
        });
    }
    assert!(some > 0 && none > 0 && all > 0, "{none} {some} {all}");
}

#[test]
fn a_full_disk_refuses_and_goes_on_by_itself_and_a_failed_sync_stops_the_store() {
    simulate(async {
        let shape = Shape::of(Kind::Embedded);
        let server = Server::new(Kind::Embedded, Chance::new(1), Log::default(), shape);
        let store = opened(&server, 0).await;
        let key = key("k");
        server.full(true);
        let (mut revision, mut seq) = (Revision::ABSENT, 1);
        loop {
            match store.compare_and_set(grant(&key, revision, seq)).await {
                WriteOutcome::Committed(committed) => (revision, seq) = (committed, seq + 1),
                WriteOutcome::Refused(StoreError::Full(_)) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(store.health(), Health::Degraded(_)));
        server.full(false);
        assert_eq!(store.health(), Health::Ready);
        revision = commit(&store, grant(&key, revision, seq)).await;
        server.fail_sync();
        let lost = store.compare_and_set(grant(&key, revision, seq + 1)).await;
        assert!(matches!(lost, WriteOutcome::Unknown(_)), "{lost:?}");
        let refused = store.compare_and_set(grant(&key, revision, seq + 1)).await;
        assert!(matches!(refused, WriteOutcome::Refused(_)), "{refused:?}");
        assert!(matches!(store.health(), Health::Degraded(_)));
        server.crashed(0);
        drop(store);
        let store = opened(&server, 0).await;
        let there = store.read(&key).await.expect("read").expect("it was written");
        assert!(there.revision.0 <= revision.0 + 1 && there.revision >= revision);
        commit(&store, grant(&key, there.revision, seq + 2)).await;
    });
}

/// A store that went back is noticed, gives nothing until its epoch was raised, and then goes on above all
/// tokens.
#[test]
fn a_regress_freezes() {
    for kind in [Kind::Nats, Kind::DynamoDb] {
        for seed in 0..20 {
            simulate(async {
                let server = Server::new(kind, Chance::new(seed), Log::default(), Shape::of(kind));
                let store = opened(&server, 0).await;
                let key = key("k");
                let mut revision = commit(&store, grant(&key, Revision::ABSENT, 1)).await;
                sleep(Duration::from_secs(2)).await;
                server.snapshot();
                for seq in 2..20 {
                    revision = commit(&store, grant(&key, revision, seq)).await;
                }
                sleep(Duration::from_secs(2)).await;
                server.regress();
                sleep(Duration::from_secs(10)).await;
                assert!(
                    matches!(store.health(), Health::Frozen(_)),
                    "{kind:?} {:?}",
                    store.health()
                );
                let refused = store.compare_and_set(grant(&key, revision, 20)).await;
                assert!(matches!(refused, WriteOutcome::Refused(_)), "{refused:?}");
                server.crashed(0);
                drop(store);
                let store = opened(&server, 0).await;
                assert!(matches!(store.health(), Health::Frozen(_)), "it remembers");
                let shared = store.shared().expect("shared");
                raise(shared, Nonce(9), Epoch(1), false).await.expect("raised");
                shared.refresh_meta().await.expect("read");
                assert_eq!(store.health(), Health::Ready);
                let there = store.read(&key).await.expect("read").expect("the older one");
                assert!(there.revision < revision);
                commit(&store, grant(&key, there.revision, 2)).await;
            });
        }
    }
    simulate(async {
        let shape = Shape::of(Kind::Embedded);
        let server = Server::new(Kind::Embedded, Chance::new(1), Log::default(), shape);
        let store = opened(&server, 0).await;
        let before = commit(&store, grant(&key("k"), Revision::ABSENT, 1)).await;
        let token = held_token(&store, before).await;
        server.crashed(0);
        drop(store);
        server.regress();
        let store = opened(&server, 0).await;
        assert_eq!(store.meta().epoch, Epoch(1));
        let mut write = grant(&key("k"), Revision::ABSENT, 1);
        write.record = Arc::new(Record { epoch: Epoch(1), ..held(1) });
        let after = commit(&store, write).await;
        assert!(held_token(&store, after).await > token);
    });
}

async fn held_token(store: &Arc<dyn LeaseStore>, revision: Revision) -> u64 {
    let there = store.read(&key("k")).await.expect("read").expect("a record");
    there.record.expect("sound").token(revision).0
}

/// The lines of the store: one for each change, at the instant of its commit, with what the checker needs.
#[test]
fn commits_are_written_down() {
    for kind in Kind::ALL {
        simulate(async {
            let log = Log::default();
            let server = Server::new(kind, Chance::new(3), log.clone(), Shape::of(kind));
            let store = opened(&server, 0).await;
            let mut listener = Listener::new(&store);
            let name = key("k");
            commit(&store, grant(&name, Revision::ABSENT, 1)).await;
            let there = store.read(&name).await.expect("read").expect("a record");
            let token = there.record.as_ref().expect("sound").token(there.revision);
            let record = Arc::new(released(&there));
            let mut end = change(ChangeKind::Released, 2);
            end.previous = end.owner.take().map(|owner| (owner, token));
            end.token = token;
            let changes = vec![end];
            let write = Write { key: name.clone(), expected: there.revision, record, changes };
            commit(&store, write).await;
            let session = Key::of_session(Nonce(5));
            let mut write = grant(&session, Revision::ABSENT, 1);
            write.changes = vec![change(ChangeKind::SessionEnded, 1)];
            write.record = Arc::new(Record { state: KeyState::Free, ..held(1) });
            commit(&store, write).await;
            let told = |kind: &str, seq| Event::Committed {
                key: "k".to_owned(),
                seq,
                kind: kind.to_owned(),
                token: token.0,
                owner: "w1".to_owned(),
                session: None,
                fences: Vec::new(),
                sent: None,
            };
            let mut lines: Vec<Event> = log.lines().into_iter().map(|line| line.event).collect();
            for line in &mut lines {
                if let Event::Committed { sent, .. } = line {
                    assert!(sent.take().is_some());
                }
            }
            let tombstone = Event::Tombstone { session: Nonce(5).to_string() };
            assert_eq!(lines, [told("granted", 1), told("released", 2), tombstone]);
            listener.until(&store, 3).await;
        });
    }
}
