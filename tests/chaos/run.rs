//! One run: a cluster, fifty workers, a fault again and again, and what the history says about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenure::clock::Chance;

use crate::{
    clock::{ms, nanos, now, sleep_ms, within},
    counter::{Counter, Sums},
    crew::{Crew, Orders},
    fault::Fault,
    history::{self, Counts, Event, Line, Log, Needs, Sight, gather},
    listener::{Heard, Listener, read_history},
    nemesis::World,
    net::{CONTROL, Net},
    node::{NODE_TTL_MS, Node},
    operator,
    stores::{Kind, Servers},
};

pub const CREWS: usize = 5;
const WORKERS: usize = 10;
const KEYS: usize = 120;
pub const TTL_MS: u64 = 3_000;
/// For how long workers go on after the last fault.
const GO_ON_MS: u64 = 2 * TTL_MS + NODE_TTL_MS;
/// Where the counter listens.
const COUNTER_PORT: u16 = 9000;
/// How long it may take until workers have begun.
pub const BEGIN_MS: u64 = 180_000;
/// How many keys are asked for at a time, when the run ends.
const ASKED_AT_ONCE: usize = 8;

/// What a run is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub store: Kind,
    pub faults: Vec<Fault>,
    pub seed: u64,
    /// For how long; 0: each fault once.
    pub seconds: u64,
    /// Where histories and files go.
    pub dir: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    pub counts: Counts,
    pub struck: Vec<String>,
    pub updates: u64,
    pub updates_refused: u64,
    /// Updates that the register without the token check lost.
    pub lost_unchecked: u64,
    /// Why it failed.
    pub failure: Option<String>,
}

impl Plan {
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.store.name(), self.faults_name(), self.seed)
    }

    pub fn faults_name(&self) -> String {
        let names: Vec<&str> = self.faults.iter().map(|fault| fault.name()).collect();
        match names.len() {
            0 => "none".to_owned(),
            1 | 2 => names.join("+"),
            _ => "every".to_owned(),
        }
    }

    pub fn histories(&self) -> PathBuf {
        self.dir.join("histories")
    }
}

/// The cluster with its workers, and who looks at them.
pub struct Stage {
    pub world: World,
    pub counter: Counter,
    listeners: Vec<Listener>,
    heard: Heard,
}

/// What the workers of a run are told.
pub fn orders(seed: u64) -> Orders {
    Orders {
        nodes: Vec::new(),
        counter: ([0, 0, 0, 0], 0).into(),
        history: PathBuf::new(),
        number: 0,
        workers: WORKERS,
        with_sessions: 2,
        keys: KEYS,
        wants: 3,
        tries: 1,
        gives_back: 3,
        ttl_ms: TTL_MS,
        seed,
        pause_ms: 250,
    }
}

/// What this was built from, where anybody knows.
fn commit() -> String {
    let mut git = std::process::Command::new("git");
    let said =
        git.args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"]).output();
    let known = said.ok().filter(|said| said.status.success());
    known.map_or("unknown".to_owned(), |said| {
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    })
}

impl Stage {
    /// Everything is there, and the workers are at work.
    pub async fn set(plan: &Plan, crews: usize, orders: Orders) -> Self {
        let histories = plan.histories();
        std::fs::create_dir_all(&histories).expect("a directory");
        let log = Log::create(&histories.join("run.jsonl"));
        let commit = commit();
        let (maker, store) = ("chaos".to_owned(), plan.store.name().to_owned());
        log.push(now(), Event::Run { maker, store, seed: plan.seed, commit });
        let mut places: Vec<String> = plan.store.places();
        places.extend((0..plan.store.nodes()).map(|n| format!("node{n}")));
        places.extend((0..crews).map(|n| format!("crew{n}")));
        let net = Net::new(&places, plan.seed);
        let servers = Servers::start(plan.store, &net, &plan.dir).await;
        let mut nodes: Vec<Node> =
            (0..plan.store.nodes()).map(|n| Node::new(n, &servers, &net, &plan.dir)).collect();
        // All at once: they make the store together.
        nodes.iter_mut().for_each(|node| node.launch(&net));
        for node in &mut nodes {
            node.ready().await;
        }
        let heard = Heard::default();
        if plan.faults.contains(&Fault::Restore) {
            heard.may_contradict();
        }
        let listen =
            |node: &Node| Listener::start(&node.place, &node.url, log.clone(), heard.clone());
        let listeners = nodes.iter().map(listen).collect();
        let at = (net.addr(CONTROL), COUNTER_PORT).into();
        let counter = Counter::serve(at, log.clone()).await;
        let urls = nodes.iter().map(|node| node.url.clone()).collect();
        let ttl_ms = orders.ttl_ms;
        let orders = Orders { nodes: urls, counter: at, ..orders };
        let mut crews: Vec<Crew> =
            (0..crews).map(|n| Crew::new(n, orders.clone(), &histories)).collect();
        crews.iter_mut().for_each(|crew| crew.start(&net));
        let chance = Chance::of(plan.seed, "faults");
        let (dir, epoch, struck) = (plan.dir.clone(), 0, Vec::new());
        let in_a_hurry = plan.seconds == 0;
        let world = World {
            net,
            servers,
            nodes,
            crews,
            chance,
            log,
            ttl_ms,
            in_a_hurry,
            dir,
            epoch,
            struck,
        };
        Self { world, counter, listeners, heard }
    }

    /// Waits until so many updates were made.
    pub async fn until_updated(&self, updates: u64) {
        let begun = within(ms(BEGIN_MS), async || self.counter.sums().taken >= updates).await;
        assert!(begun, "the workers did not begin: {:?}", self.counter.sums());
    }

    /// The faults are over: workers go on for so long, end, and every key is there to be taken. Writes down what
    /// the store's history says.
    pub async fn calm_down(&mut self, go_on_ms: u64) {
        let world = &mut self.world;
        world.log.push(now(), Event::Calm);
        sleep_ms(go_on_ms).await;
        for crew in &mut world.crews {
            crew.stop().await;
        }
        for node in &world.nodes {
            for (series, sight) in [
                ("tenure_lease_adoptions_total", Sight::Adoption),
                ("tenure_node_lapses_total", Sight::Lapse),
            ] {
                for _ in 0..node.metric(series).await {
                    world.log.push(now(), Event::Seen { sight });
                }
            }
        }
        sleep_ms(world.ttl_ms).await;
        no_key_is_stuck(&world.nodes, &self.heard.keys()).await;
        // What was just granted is in the history when everybody has heard of it.
        sleep_ms(1_500).await;
        let read = read_history(&world.nodes[0].url, &self.heard).await;
        let changes = read.expect("the store's history can be read");
        assert!(changes > 0, "the store's history is empty");
        self.listeners.clear();
        let tombstones = operator::tombstones(world).await;
        self.heard.write_down(&tombstones, &world.log);
        world.log.push(now(), Event::Over);
    }
}

/// I8: every key can be taken, through any node.
async fn no_key_is_stuck(nodes: &[Node], keys: &[String]) {
    let mut left: Vec<&String> = keys.iter().collect();
    let mut last = String::new();
    let all = within(ms(120_000), async || {
        let asked = left.iter().enumerate().map(async |(n, key)| {
            let body = json!({ "key": key, "owner": "last", "ttl_ms": 1_000 });
            (*key, nodes[n % nodes.len()].try_post("/v1/acquire", &body).await)
        });
        let answers: Vec<_> = stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).collect().await;
        left.clear();
        for (key, answer) in answers {
            if answer.0 != 200 {
                last = format!("{key}: {answer:?}");
                left.push(key);
            }
        }
        left.is_empty()
    })
    .await;
    assert!(all, "stuck: {left:?}; {last}");
}

/// Does what the plan says, in namespaces of its own.
pub async fn run(plan: &Plan) -> Verdict {
    let mut stage = Stage::set(plan, CREWS, orders(plan.seed)).await;
    stage.until_updated(50).await;
    let end = now() + plan.seconds * 1_000_000_000;
    let mut turn = 0;
    while if plan.seconds == 0 { turn < plan.faults.len() } else { turn == 0 || now() < end } {
        let quiet = 500 + stage.world.below(2_000) as u64;
        sleep_ms(quiet).await;
        let fault = plan.faults[turn % plan.faults.len()];
        stage.world.suffer(fault).await;
        turn += 1;
    }
    stage.calm_down(GO_ON_MS).await;
    judge(plan, stage.world.struck, stage.counter.sums())
}

/// Of a store that goes backwards, what it forgot and what it told cannot be held against it: there, what
/// workers believed, what they were refused, and what the counter took is judged.
fn believed(lines: Vec<Line>) -> Vec<Line> {
    let of_store = |event: &Event| {
        matches!(
            event,
            Event::LateCommits
                | Event::Committed { .. }
                | Event::Tombstone { .. }
                | Event::Heard { .. }
                | Event::Reset { .. }
                | Event::Acknowledged { .. }
                | Event::SessionEndAcknowledged { .. }
        )
    };
    let answered = |mut line: Line| {
        if let Event::Acknowledged { call, .. } | Event::SessionEndAcknowledged { call, .. } =
            line.event
        {
            line.event = Event::Refused { call, why: "done".to_owned() };
        }
        line
    };
    lines.into_iter().map(answered).filter(|line| !of_store(&line.event)).collect()
}

/// The grants of the last quiet time that a listener was not told of: a store that went backwards begins to
/// count anew, and listeners have to follow.
fn untold(lines: &[Line]) -> Vec<String> {
    let last =
        |is: fn(&Event) -> bool| lines.iter().rev().find(|line| is(&line.event)).map(|line| line.t);
    let from = last(|event| matches!(event, Event::Fault { .. })).unwrap_or(0);
    let resets = last(|event| matches!(event, Event::Reset { .. })).unwrap_or(0);
    let from = from.max(resets) + nanos(1_000);
    let mut listeners: BTreeMap<&str, BTreeSet<(&str, u64)>> = BTreeMap::new();
    for line in lines {
        if let Event::Heard { subscriber, key, token, kind, .. } = &line.event
            && kind == "granted"
        {
            listeners.entry(subscriber).or_default().insert((key, *token));
        }
    }
    let mut untold = Vec::new();
    for line in lines.iter().filter(|line| line.t > from) {
        if let Event::Told { key, token, grant: true, .. } = &line.event {
            for (name, heard) in &listeners {
                if !heard.contains(&(key.as_str(), *token)) {
                    untold.push(format!("{name} was not told of {key} under {token}"));
                }
            }
        }
    }
    untold
}

/// What the history and the counter say about a run.
pub fn judge(plan: &Plan, struck: Vec<String>, sums: Sums) -> Verdict {
    let mut lines = gather(&plan.histories());
    let mut failures = untold(&lines);
    if plan.faults.contains(&Fault::Restore) {
        lines = believed(lines);
    }
    let report = history::check(&lines);
    if !report.violations.is_empty() {
        failures.push(format!("{report}"));
    }
    if sums.lost > 0 {
        failures.push(format!("{} updates were lost under the token check", sums.lost));
    }
    let least = 60.max(plan.seconds);
    let needs =
        Needs { operations: 20 * least, grants: least, take_overs: least / 4, ..Needs::default() };
    if let Err(why) = report.demand(&needs) {
        failures.push(format!("too little happened: {why}"));
    }
    if sums.taken < least {
        failures.push(format!("too little was updated: {sums:?}"));
    }
    Verdict {
        counts: report.counts,
        struck,
        updates: sums.taken,
        updates_refused: sums.refused,
        lost_unchecked: sums.lost_unchecked,
        failure: (!failures.is_empty()).then(|| failures.join("\n")),
    }
}

/// A worker that is stopped between its check and its write: the next holder writes meanwhile.
pub async fn a_stopped_worker(plan: &Plan) -> Verdict {
    let told = Orders {
        workers: 1,
        with_sessions: 0,
        keys: 1,
        wants: 1,
        pause_ms: 1_500,
        ..orders(plan.seed)
    };
    let mut stage = Stage::set(plan, 2, told).await;
    let key = "work/000";
    for turn in 0..20 {
        let before = stage.counter.calls(key);
        assert!(within(ms(BEGIN_MS), async || stage.counter.calls(key) > before).await, "no work");
        let world = &mut stage.world;
        world.begins("stop", &format!("crew {}", turn % 2));
        world.crews[turn % 2].signal(rustix::process::Signal::STOP);
        sleep_ms(3 * TTL_MS).await;
        world.crews[turn % 2].signal(rustix::process::Signal::CONT);
        sleep_ms(1_500).await;
        world.struck.push(format!("crew {} stopped", turn % 2));
        if stage.counter.sums().lost_unchecked > 0 {
            break;
        }
    }
    stage.calm_down(GO_ON_MS).await;
    let report = history::check(&gather(&plan.histories()));
    let sums = stage.counter.sums();
    let shown = sums.lost == 0 && sums.lost_unchecked > 0 && sums.refused > 0;
    let failure = (!shown || !report.violations.is_empty()).then(|| format!("{sums:?}\n{report}"));
    Verdict {
        counts: report.counts,
        struck: stage.world.struck,
        updates: sums.taken,
        updates_refused: sums.refused,
        lost_unchecked: sums.lost_unchecked,
        failure,
    }
}

/// Removes what a run left, but for its histories where they are wanted.
pub fn tidy(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
}
