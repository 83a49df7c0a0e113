//! Nodes on one store, workers that use them, a subscriber of each, and the book of what was believed.

use serde_json::json;
use tempfile::TempDir;
use tenure::clock::Chance;
use tokio::{sync::watch, task::JoinHandle};

use crate::cluster::{
    ledger::{Fortunes, Lease, Ledger},
    subscriber::{self, Subscriber},
    worker::{Worker, World},
};

use crate::support::{
    clock::{ms, now, sleep_ms, within},
    node::Node,
    servers::Servers,
};

/// How long a node may answer after it last renewed its record.
pub const NODE_TTL_MS: u64 = 3_000;

/// What is done to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// kill -9 of a node, which comes back later.
    Crash,
    /// Every node is stopped and started again, one after the other.
    Roll,
}

pub struct Cluster {
    pub nodes: Vec<Node>,
    _servers: Servers,
    pub ledger: Ledger,
    subscribers: Vec<Subscriber>,
    workers: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    pub ttl_ms: u64,
    _witnesses: TempDir,
}

impl Cluster {
    pub async fn start(servers: Servers, nodes: usize, ttl_ms: u64) -> Self {
        let witnesses = tempfile::tempdir().expect("a directory");
        let mut all = Vec::new();
        for n in 0..nodes {
            let mut sets = servers.settings();
            if nodes > 1 {
                let witness = witnesses.path().join(format!("node-{n}.json"));
                sets.push(format!("node.ttl={NODE_TTL_MS}ms"));
                sets.push(format!("node.witness={}", witness.display()));
            }
            sets.push("telemetry.log=warn,tenure=info".to_owned());
            all.push(Node::new(&format!("node {n}"), &sets, &servers.environment()));
        }
        let mut cluster = Self {
            nodes: all,
            _servers: servers,
            ledger: Ledger::default(),
            subscribers: Vec::new(),
            workers: Vec::new(),
            stop: watch::Sender::new(false),
            ttl_ms,
            _witnesses: witnesses,
        };
        // All at once: they make the store together.
        cluster.nodes.iter_mut().for_each(Node::launch);
        for node in &mut cluster.nodes {
            node.ready().await;
        }
        cluster.subscribers = cluster.nodes.iter().map(|n| Subscriber::start(&n.url)).collect();
        cluster
    }

    /// Starts workers that together want every lease there is.
    pub fn employ(&mut self, workers: usize, keys: usize, gives_back: u64, seed: u64) {
        let world = World {
            nodes: self.nodes.iter().map(|node| node.url.clone()).collect(),
            keys,
            ttl_ms: self.ttl_ms,
            wants: keys.div_ceil(workers),
            gives_back,
            ledger: self.ledger.clone(),
            stop: self.stop.subscribe(),
        };
        for number in 0..workers {
            let worker = Worker::new(number, seed, world.clone());
            self.workers.push(tokio::spawn(worker.work()));
        }
    }

    /// Waits until the workers hold so many leases.
    pub async fn until_held(&self, leases: usize, patience_ms: u64) {
        let mut held = 0;
        let enough = within(ms(patience_ms), async || {
            held = self.ledger.held_at(now()).len();
            held >= leases
        })
        .await;
        assert!(enough, "{held} of {leases} leases are held after {patience_ms} ms");
    }

    fn assert_workers(&mut self) {
        assert!(self.workers.iter().all(|worker| !worker.is_finished()), "a worker gave up");
    }

    /// Does the fault to the cluster, waits until all is as before, and tells what became of the
    /// leases that were held when it began.
    pub async fn suffer(&mut self, fault: Fault, chance: &mut Chance) -> Fortunes {
        self.assert_workers();
        let before: Vec<Lease> = self.ledger.held_at(now());
        let victim = (chance.next_u64() % self.nodes.len() as u64) as usize;
        // Everything that the dead node promised has run out.
        let away = self.ttl_ms + NODE_TTL_MS;
        match fault {
            Fault::Crash => {
                self.nodes[victim].kill();
                sleep_ms(away).await;
                self.nodes[victim].start().await;
            }
            Fault::Roll => {
                for node in &mut self.nodes {
                    node.stop().await;
                    sleep_ms(500).await;
                    node.start().await;
                }
            }
        }
        for node in &mut self.nodes {
            node.ready().await;
        }
        // Every worker has asked for every lease again.
        sleep_ms(self.ttl_ms * 2 / 3 + 1_000).await;
        self.ledger.check();
        self.assert_workers();
        let fortunes = self.ledger.fortunes(&before, now());
        let Fortunes { held, given_back, kept, lost } = &fortunes;
        println!(
            "{fault:?} (victim {victim}): of {held} leases {kept} were kept, {given_back} given \
             back, {} lost: {:.2} %",
            lost.len(),
            fortunes.share() * 100.0
        );
        for lost in lost.iter().take(5) {
            println!("    {lost}");
        }
        fortunes
    }

    /// Stops the workers, lets everything run out, and checks all that was believed and told.
    pub async fn finish(mut self) {
        self.assert_workers();
        self.stop.send_replace(true);
        for worker in self.workers.drain(..) {
            worker.await.expect("no worker panicked");
        }
        self.ledger.check();
        println!("{}", self.ledger.summary());
        subscriber::settled(&self.subscribers, 4 * self.ttl_ms + 20_000).await;
        for subscriber in &self.subscribers {
            println!("{}", subscriber.summary());
        }
        self.no_key_is_stuck().await;
        subscriber::settled(&self.subscribers, 4 * self.ttl_ms + 20_000).await;
        let changes = subscriber::check(&self.subscribers, &self.ledger.tenures());
        println!("{changes} changes");
    }

    /// I8: once faults stop, every key is there to be taken, through any node.
    async fn no_key_is_stuck(&self) {
        let keys: Vec<String> = self.subscribers[0].last().into_keys().collect();
        let (mut ended, mut last) = (keys, String::new());
        let end = now() + ms(2 * self.ttl_ms + 10_000);
        while !ended.is_empty() && now() < end {
            let mut held = Vec::new();
            for (n, key) in ended.iter().enumerate() {
                let node = &self.nodes[n % self.nodes.len()];
                let body = json!({ "key": key, "owner": "last", "ttl_ms": 1_000 });
                let asked = now();
                let (status, answer) = node.post("/v1/acquire", &body).await;
                match status {
                    200 => {}
                    409 | 423 | 429 | 503 => {
                        let after = now().since(asked);
                        held.push(key.clone());
                        last = format!("{key} at {} after {after:?}: {answer}", node.url);
                    }
                    _ => panic!("{key}: {status} {answer}"),
                }
                // Slow refusals of hundreds of keys are not waited for.
                if now() > end + ms(10_000) {
                    held.extend(ended[n + 1..].iter().cloned());
                    break;
                }
            }
            ended = held;
            sleep_ms(50).await;
        }
        let Some(stuck) = ended.first() else { return };
        for node in &self.nodes {
            println!("{}: {}", node.url, node.get(&format!("/v1/leases/{stuck}")).await);
            println!("{}", node.said_of(stuck));
        }
        panic!("stuck: {ended:?}; {last}");
    }
}
