//! Three coordinators on NATS change versions one after the other, forwards and back, while workers work.

use serde_json::json;
use tokio::sync::watch;

use crate::{
    history::{Event, Needs, Notes, check, fortunes},
    support::{
        clock::{ms, now, sleep_ms, within},
        nats_server::Server,
        node::Node,
        seed::seed,
    },
    upgrade::{
        Version,
        told::{Told, settled, tombstones},
        worker::{KEYS, TTL_MS, Worker},
    },
};

const NODES: usize = 3;
/// How many workers there are, and how many of them keep their leases by a session.
const WORKERS: usize = 12;
const UNDER_SESSIONS: usize = 4;
/// How many leases are held when the first node is replaced, and at least at every moment that is looked at.
const HELD: usize = 40;
/// By when every worker has asked for all its leases again.
const ROUND_MS: u64 = TTL_MS / 4 + 1_500;
/// How long the workers may take to begin.
const BEGIN_MS: u64 = 60_000;

struct Cluster {
    nodes: Vec<Node>,
    versions: [Version; NODES],
    dir: tempfile::TempDir,
    _server: Server,
}

impl Cluster {
    /// Three nodes of this version.
    async fn start(version: Version) -> Self {
        let (server, dir) = (Server::start(), tempfile::tempdir().expect("a directory"));
        let node = |n: usize| {
            let witness = dir.path().join(format!("witness-{n}.json"));
            let sets = [
                "store.kind=nats".to_owned(),
                format!("store.nats.url={}", server.url()),
                "store.nats.replicas=1".to_owned(),
                "store.nats.history=64".to_owned(),
                "node.ttl=3s".to_owned(),
                format!("node.witness={}", witness.display()),
            ];
            Node::new(&format!("node {n}"), &sets, &[])
        };
        let mut nodes: Vec<Node> = (0..NODES).map(node).collect();
        for node in &mut nodes {
            node.launch_by(version.command());
            node.ready().await;
        }
        Self { nodes, versions: [version; NODES], dir, _server: server }
    }

    fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url.clone()).collect()
    }

    /// Stops a node as an operator does, and starts the other program in its place.
    async fn replace(&mut self, n: usize, version: Version) {
        assert_ne!(self.versions[n], version);
        self.nodes[n].stop().await;
        self.nodes[n].launch_by(version.command());
        self.nodes[n].ready().await;
        self.versions[n] = version;
    }

    /// How many calls each node passed on to a lease's home node since it was started.
    async fn forwarded(&self) -> f64 {
        let mut sum = 0.0;
        for node in &self.nodes {
            sum += node.metric("tenure_forwarded_requests_total{outcome=\"answered\"").await;
        }
        sum
    }

    /// Every key can be taken, through any node.
    async fn no_key_is_stuck(&self) {
        let mut left: Vec<String> = (0..KEYS).map(|n| format!("work/{n:02}")).collect();
        let mut last = String::new();
        let all = within(ms(6 * TTL_MS), async || {
            let mut refused = Vec::new();
            for (n, key) in left.drain(..).enumerate() {
                let body = json!({ "key": key, "owner": "last", "ttl_ms": 1_000 });
                let answer = self.nodes[n % NODES].try_post("/v1/acquire", &body).await;
                if answer.0 != 200 {
                    last = format!("{key}: {answer:?}");
                    refused.push(key);
                }
            }
            left = refused;
            left.is_empty()
        })
        .await;
        assert!(all, "stuck: {last}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_change_under_load_and_no_lease_is_lost() {
    let mut cluster = Cluster::start(Version::Previous).await;
    let (notes, told, seed) = (Notes::default(), Told::default(), seed("workers"));
    let store = "nats".to_owned();
    let run = Event::Run { maker: "upgrade".to_owned(), store, seed, commit: String::new() };
    notes.log.push(now().0, run);
    let following = tokio::spawn(told.clone().follow(cluster.urls()));
    let (stop, stopped) = watch::channel(false);
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (name, urls) = (format!("w{number:02}"), cluster.urls());
            let worker = Worker::new(name, &urls, seed, notes.clone(), number < UNDER_SESSIONS);
            tokio::spawn(worker.work(stopped.clone()))
        })
        .collect();
    let begun = within(ms(BEGIN_MS), async || {
        sleep_ms(500).await;
        let t = now().0;
        fortunes(&notes.log.lines(), t, t).kept >= HELD
    });
    assert!(begun.await, "the workers did not begin");

    let forwards = (0..NODES).map(|n| (n, Version::This));
    let back = (0..NODES).rev().map(|n| (n, Version::Previous));
    for (n, version) in forwards.chain(back) {
        let before = now().0;
        cluster.replace(n, version).await;
        let forwarded = cluster.forwarded().await;
        sleep_ms(ROUND_MS).await;
        let became = fortunes(&notes.log.lines(), before, now().0);
        println!("{:?}: {became}", cluster.versions);
        let lost = &became.lost;
        assert!(lost.is_empty(), "{:?}: {became}: {lost:#?}", cluster.versions);
        assert!(became.kept + became.given_back >= HELD / 2, "{:?}: {became}", cluster.versions);
        let passed_on = cluster.forwarded().await - forwarded;
        assert!(passed_on > 0.0, "{:?}: no call was passed on", cluster.versions);
    }

    stop.send_replace(true);
    for worker in workers {
        worker.await.expect("a worker");
    }
    cluster.no_key_is_stuck().await;
    settled(&told).await;
    assert!(!following.is_finished(), "the history was not followed to its end");
    following.abort();
    let over = tombstones(&cluster.nodes[0], cluster.dir.path());
    told.write_down(over, &notes.log);
    notes.log.push(now().0, Event::Over);
    let report = check(&notes.log.lines());
    assert!(report.violations.is_empty(), "{report}");
    println!("{}", report.counts);
    // A busy machine gets this far, too.
    let needs = Needs {
        operations: 200,
        grants: 30,
        heartbeats: 100,
        releases: 5,
        take_overs: 5,
        sessions_ended: 1,
        ..Needs::default()
    };
    report.demand(&needs).expect("enough happened");
    for node in &mut cluster.nodes {
        node.stop().await;
    }
}
