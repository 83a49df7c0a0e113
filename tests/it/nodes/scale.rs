//! Many leases under many sessions, on a DynamoDB endpoint whose answers take 10 ms longer: a node dies, a node comes
//! back, sessions end. What that costs, and how long it takes.
//!
//! `SESSIONS` (default 40), `LEASES` of each (default 50), `STEADY` (default 15, in seconds), `ENDED` (default 10).

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    nodes::pair::{DEATH_MS, ENVIRONMENT},
    support::{
        clock::{ms, now, sleep_ms, within},
        dynamo_endpoint::Endpoint,
        node::Node,
        proxy::{Fate, HttpProxy},
        seed::from_environment,
    },
};

const TTL_MS: u64 = 15_000;
/// Calls that the test has under way at a time.
const AT_ONCE: usize = 32;
/// From when a death is known to the first heartbeat that is answered.
const FIRST_HEARTBEAT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 2 } else { 1 });

/// Every session's heartbeats, until one is absorbed; how long the slowest took. None may be lost.
async fn beat_all(node: &Node, sessions: &[String]) -> Duration {
    let beat = async |id: &String| {
        let (path, began) = (format!("/v1/sessions/{id}/heartbeat"), now());
        let absorbed = within(ms(TTL_MS), async || {
            let (status, answer) = node.try_post(&path, &json!({})).await;
            assert!([0, 200, 503].contains(&status), "{status} {answer}");
            status == 200
        });
        assert!(absorbed.await, "a session is lost");
        now().since(began)
    };
    let took = stream::iter(sessions).map(beat).buffer_unordered(AT_ONCE);
    took.fold(Duration::ZERO, async |most, one| most.max(one)).await
}

/// Keeps sessions by heartbeats at whichever node answers, until it is dropped.
struct Membership {
    kept: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Membership {
    fn new(nodes: [Node; 2]) -> Self {
        let kept = Arc::new(Mutex::new(Vec::<String>::new()));
        let ids = kept.clone();
        let task = tokio::spawn(async move {
            loop {
                let sessions = ids.lock().unwrap().clone();
                let beat = async |id: &String| {
                    let path = format!("/v1/sessions/{id}/heartbeat");
                    for node in &nodes {
                        if node.try_post(&path, &json!({})).await.0 == 200 {
                            break;
                        }
                    }
                };
                stream::iter(&sessions).map(beat).buffer_unordered(AT_ONCE).collect::<()>().await;
                sleep_ms(TTL_MS / 4).await;
            }
        });
        Self { kept, task }
    }

    fn keep(&self, id: &str) {
        self.kept.lock().unwrap().push(id.to_owned());
    }

    fn end(&self, ended: &BTreeSet<&String>) {
        self.kept.lock().unwrap().retain(|id| !ended.contains(id));
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Stage {
    nodes: [Node; 2],
    proxy: HttpProxy,
    _endpoint: Endpoint,
    _dir: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let endpoint = Endpoint::start();
        let proxy = HttpProxy::to(endpoint.addr()).await;
        let dir = tempfile::tempdir().expect("a directory");
        let node = |name: &str| {
            let sets = [
                "store.kind=dynamodb".to_owned(),
                format!("store.dynamodb.endpoint={}", proxy.url()),
                "store.dynamodb.create_table=true".to_owned(),
                "telemetry.log=warn".to_owned(),
                format!("node.witness={}", dir.path().join(name).display()),
            ];
            Node::new(name, &sets, &ENVIRONMENT)
        };
        let mut nodes = [node("a"), node("b")];
        for node in &mut nodes {
            node.start().await;
        }
        Self { nodes, proxy, _endpoint: endpoint, _dir: dir }
    }

    /// Reads of leases, in units; and looks through the whole table.
    fn read(&self) -> (f64, usize) {
        let units = self.proxy.units("GetItem", "l#") + self.proxy.units("BatchGetItem", "l#");
        (units, self.proxy.count("Scan"))
    }

    /// Waits until the other node is known to be dead.
    async fn death_is_known(&self, at: &Node) {
        let dead = within(ms(DEATH_MS), async || {
            let nodes = at.get("/v1/nodes").await;
            let nodes = nodes["nodes"].as_array().expect("nodes");
            nodes.iter().filter(|node| node["state"] == "alive").count() == 1
        });
        assert!(dead.await, "nobody finds it dead");
    }
}

/// Sessions that keep leases, opened at the first node.
async fn open(node: &Node, membership: &Membership, sessions: u64, leases: u64) -> Vec<String> {
    let open = async |n: u64| {
        let (owner, keys) = (format!("w{n}"), (0..leases).map(|k| format!("s{n}/{k}")));
        let asks =
            json!({ "owner": owner, "ttl_ms": TTL_MS, "behavior": "release", "lock_delay_ms": 0 });
        // A busy endpoint may let some writes fail.
        let (mut status, mut opened) = (503, json!(null));
        while status == 503 {
            (status, opened) = node.post_patiently("/v1/sessions", &asks, ms(60_000)).await;
        }
        assert_eq!(status, 201, "{opened}");
        let id = opened["id"].as_str().expect("an id").to_owned();
        membership.keep(&id);
        let keys: Vec<String> = keys.collect();
        let asks = json!({ "keys": keys, "count": leases, "owner": owner, "session": id });
        let mut granted = 0;
        while granted < leases {
            let (status, told) = node.post_patiently("/v1/acquire-any", &asks, ms(60_000)).await;
            assert!([200, 503].contains(&status), "{told}");
            granted += told["grants"].as_array().map_or(0, Vec::len) as u64;
        }
        id
    };
    stream::iter(0..sessions).map(open).buffer_unordered(8).collect().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_a_return_and_ends_cost_what_the_sessions_keep() {
    let sized = |name: &str, otherwise| from_environment(name).unwrap_or(otherwise);
    let (sessions, leases) = (sized("SESSIONS", 40), sized("LEASES", 50));
    let (steady, ended) = (sized("STEADY", 15), sized("ENDED", 10) as usize);
    let mut stage = Stage::new().await;
    let membership = Membership::new([stage.nodes[0].remote(), stage.nodes[1].remote()]);
    let ids = open(&stage.nodes[0], &membership, sessions, leases).await;
    stage.proxy.rule(|_, _| Fate::Late(ms(10)));

    stage.nodes[0].kill();
    stage.death_is_known(&stage.nodes[1]).await;
    let took = beat_all(&stage.nodes[1], &ids).await;
    println!("{sessions} sessions of {leases}: after a death the last is absorbed in {took:?}");
    assert!(took <= FIRST_HEARTBEAT, "{took:?}");

    stage.nodes[0].start().await;
    let took = beat_all(&stage.nodes[0], &ids).await;
    println!("at the node that came back: {took:?}");
    assert!(took <= FIRST_HEARTBEAT, "{took:?}");

    // The looks that follow a death and a start are over when hardly anything is read any more.
    let mut before = (0.0, 0);
    let calm = within(ms(300_000), async || {
        let last = std::mem::replace(&mut before, stage.read());
        sleep_ms(10_000).await;
        before.0 - last.0 <= sessions as f64 && before.1 == last.1
    });
    assert!(calm.await, "the nodes read without end");

    let written = stage.proxy.units("PutItem", "l#");
    let over: BTreeSet<&String> = ids.iter().take(ended).collect();
    membership.end(&over);
    let end = async |id: &&String| {
        let (status, answer) = stage.nodes[1].delete(&format!("/v1/sessions/{id}")).await;
        assert_eq!(status, 200, "{answer}");
    };
    let began = now();
    stream::iter(&over).map(end).buffer_unordered(8).collect::<()>().await;
    let writes = ended as u64 * (1 + leases);
    let freed =
        within(ms(60_000), async || stage.proxy.units("PutItem", "l#") - written >= writes as f64);
    assert!(freed.await, "not all leases of ended sessions end");
    println!("{ended} sessions ended within {:?}", now().since(began));
    // Until after their records are removed.
    sleep_ms(15_000).await;
    let (units, looks) = stage.read();
    let (units, looks) = (units - before.0, looks - before.1);
    println!("an end: {} read units", units / ended as f64);
    assert!(units <= (ended as u64 * (2 + 2 * leases)) as f64, "{units} units");
    assert_eq!(looks, 0, "nobody looks through the table");

    let rest: Vec<String> = ids.iter().filter(|id| !over.contains(id)).cloned().collect();
    let before = stage.read();
    sleep_ms(steady * 1_000).await;
    let after = stage.read();
    beat_all(&stage.nodes[1], &rest).await;
    println!(
        "steady for {steady} s: {} read units, {} looks",
        after.0 - before.0,
        after.1 - before.1
    );
    // Where heartbeats arrive at another node than the session's home, that one reads the session's record now and then.
    let most = rest.len() as u64 * (1 + steady / 15);
    assert!(after.0 - before.0 <= most as f64 && after.1 == before.1, "{before:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_another_node_are_looked_at_together() {
    let stage = Stage::new().await;
    let keys: Vec<String> = (0..190).map(|n| format!("k/{n}")).collect();
    let any = |owner: &str, count: usize| json!({ "keys": keys, "owner": owner, "ttl_ms": 60_000, "count": count });
    let (status, grants) = stage.nodes[0].post("/v1/acquire-any", &any("w", 190)).await;
    assert_eq!((status, grants["grants"].as_array().map(Vec::len)), (200, Some(190)));
    let known = within(ms(10_000), async || {
        let page = stage.nodes[1].get("/v1/leases?owner=w&limit=500").await;
        page["leases"].as_array().is_some_and(|leases| leases.len() == 190)
    });
    assert!(known.await);
    stage.proxy.rule(|_, _| Fate::Late(ms(100)));
    let began = now();
    let (status, none) = stage.nodes[1].post("/v1/acquire-any", &any("v", 1)).await;
    let took = now().since(began);
    assert_eq!((status, &none["counts"]["held"]), (409, &json!(190)), "{none}");
    // One after another they would take 190 times 100 ms.
    assert!(took < ms(8_000), "{took:?}");
}
