//! Every operation of the API, by whoever may not and by whoever may, at three nodes of one store: the home node of what
//! the call is about, another one, and one whose access file is older and gives everybody every right.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    cast::{acting_as, all_of, call_at, principal, reload, write},
    cells::{Cell, KINDS, Kind, WAYS, Way, expected, is_forwarded},
    rows::{By, Goes, KEY, LEASE, POOL, Row, SESSION, all_but, rows, verbs},
};
use crate::{
    nodes::{
        events::events_after,
        pair::{ENVIRONMENT, Pair},
    },
    support::{
        clock::eventually,
        harness::{Grant, Reply},
        node::Node,
    },
};

/// The principals that have all rights for one reason or another, before the reload.
const CAST: [&str; 6] = ["right", "thief", "expired", "removed", "elsewhere", "stranger"];

/// What a caller holds at the home node.
#[derive(Clone)]
struct Holding {
    key: String,
    lease_id: String,
    session: String,
}

struct Cluster {
    /// `a` is the home node of everything.
    pair: Pair,
    /// The node whose access file stays as it is.
    stale: Node,
    _dir: TempDir,
    /// What each caller held before the reload.
    held: BTreeMap<String, Holding>,
    made: u32,
}

/// The file before the reload: everybody has every right.
fn before() -> Vec<String> {
    let without = verbs().into_iter().map(|verb| format!("no-{verb}"));
    let names = CAST.into_iter().map(str::to_owned).chain(without);
    names.map(|name| principal(&name, &all_of(""))).collect()
}

/// The file after it.
fn after() -> Vec<String> {
    let all = all_of("");
    let without = verbs().into_iter().map(|verb| principal(&format!("no-{verb}"), &all_but(verb)));
    let cast = [
        acting_as("right", &all, "w*"),
        principal("thief", &all),
        format!("{}expires = 2020-01-31\n", principal("expired", &all)),
        principal("elsewhere", &all_of("out/")),
        acting_as("stranger", &all, "x*"),
    ];
    cast.into_iter().chain(without).collect()
}

impl Cluster {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str| dir.path().join(name);
        for name in ["a", "b", "c"] {
            write(&file(name), &before());
        }
        // A node that is late on a busy machine must stay the home node.
        let sets =
            |name: &str| [format!("auth.file={}", file(name).display()), "node.ttl=8s".to_owned()];
        let pair = Pair::nats_with(&sets("a"), &sets("b"), "right", &[]).await;
        let stale = Node::new("c", &[&pair.sets[..], &sets("c")[..]].concat(), &ENVIRONMENT);
        let mut stale = stale.configured(&pair.settings()).with_token("right");
        stale.start().await;
        let files = [file("a"), file("b")];
        let mut cluster = Self { pair, stale, _dir: dir, held: BTreeMap::new(), made: 0 };
        eventually("each node knows the others", async || {
            let nodes = [&cluster.pair.a, &cluster.pair.b, &cluster.stale];
            let mut known = true;
            for node in nodes {
                let told = node.get("/v1/nodes").await;
                known &= told["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3);
            }
            known
        })
        .await;
        let without = verbs().into_iter().map(|verb| format!("no-{verb}"));
        for name in CAST.into_iter().map(str::to_owned).chain(without) {
            let holding = cluster.holding(&name, &format!("in/{name}"), "w").await;
            cluster.held.insert(name, holding);
        }
        for (node, file) in [&cluster.pair.a, &cluster.pair.b].into_iter().zip(&files) {
            reload(node, file, &after()).await;
        }
        cluster
    }

    fn url(&self, way: Way) -> &str {
        match way {
            Way::Direct => &self.pair.a.url,
            Way::Forwarded => &self.pair.b.url,
            Way::Stale => &self.stale.url,
        }
    }

    /// A lease and a session whose home node is `a`, and which all nodes know.
    async fn holding(&self, token: &str, key: &str, owner: &str) -> Holding {
        let home = self.url(Way::Direct);
        let acquire = json!({ "key": key, "owner": owner, "ttl_ms": 600_000 });
        let grant = call_at(home, token, "POST", "/v1/acquire", &acquire).await.ok();
        let open = json!({ "owner": owner, "ttl_ms": 600_000 });
        let opened = call_at(home, token, "POST", "/v1/sessions", &open).await;
        assert_eq!(opened.status, 201, "{}", opened.text());
        let opened = opened.json();
        let digest = opened["digest"].as_str().expect("a digest");
        for way in WAYS {
            eventually("the node knows the lease and the session", async || {
                let get = async |path: String| {
                    call_at(self.url(way), "right", "GET", &path, &Value::Null).await
                };
                let listed = get(format!("/v1/leases?key={key}&state=held")).await.ok();
                let session = get(format!("/v1/sessions/{digest}")).await;
                listed["leases"].as_array().is_some_and(|found| found.len() == 1)
                    && session.status == 200
            })
            .await;
        }
        Holding {
            key: key.to_owned(),
            lease_id: Grant::of(&grant).lease_id,
            session: opened["id"].as_str().expect("an id").to_owned(),
        }
    }

    async fn call(&self, way: Way, token: &str, row: &Row, holding: &Holding) -> Reply {
        let fill = |text: String| {
            let text = text.replace(SESSION, &holding.session).replace(LEASE, &holding.lease_id);
            text.replace(KEY, &holding.key)
        };
        // Every policy file of a pair has this pool.
        let path = fill(row.target().replace(&format!("/{POOL}"), "/shards"));
        let body = if row.body.is_null() {
            Value::Null
        } else {
            serde_json::from_str(&fill(row.body.to_string())).expect("JSON")
        };
        call_at(self.url(way), token, &row.method.to_uppercase(), &path, &body).await
    }

    /// What the home node says that the store holds.
    async fn content(&self) -> Value {
        let home = &self.pair.a;
        let mut content = json!({ "events": events_after(home, "0").await.0 });
        for kind in ["leases", "sessions"] {
            let mut listed = home.get(&format!("/v1/{kind}?limit=1000")).await;
            for entry in listed[kind].as_array_mut().expect("a list") {
                entry["expires_in_ms"].take();
            }
            content[kind] = listed;
        }
        content
    }

    /// What the caller shows in a call that is to be served.
    async fn shown(&mut self, row: &Row, kind: Kind) -> Holding {
        self.made += 1;
        let made = self.made;
        if row.goes == Goes::Everywhere {
            self.holding("right", &format!("in/drain/{made}"), "w-drain").await;
        }
        let (name, place, owner) = match kind {
            // Such a call ends nothing.
            _ if row.goes == Goes::Nowhere => return self.held[&kind.token(row)].clone(),
            Kind::OtherPrefix => ("elsewhere", "out", "w"),
            Kind::OtherOwner => ("stranger", "in", "x"),
            Kind::Right => ("right", "in", "w"),
            // It has no rights at the home node any more.
            _ => return self.held[&kind.token(row)].clone(),
        };
        self.holding(name, &format!("{place}/{made}"), owner).await
    }
}

/// Status and code of an answer; in a batch, those of its one lease.
fn outcome(row: &Row, reply: &Reply) -> (u16, String) {
    let is_json = reply.header("content-type").is_some_and(|kind| kind.contains("json"));
    let answer = if is_json { reply.json() } else { Value::Null };
    let verdict = Some(&answer["results"][0]).filter(|it| row.by == By::Batch && !it.is_null());
    let told = verdict.unwrap_or(&answer);
    let status = verdict.and_then(|verdict| verdict["status"].as_u64());
    let status = status.map_or(reply.status, |status| u16::try_from(status).unwrap_or(0));
    (status, told["code"].as_str().unwrap_or_default().to_owned())
}

/// The node that an answer is said to come from, if that is another one.
fn answered_by(row: &Row, reply: &Reply) -> Option<String> {
    if row.by == By::Batch && reply.status == 200 {
        return reply.json()["results"][0]["node"].as_str().map(str::to_owned);
    }
    reply.header("x-tenure-node").map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_has_the_rights_of_its_home_node_wherever_it_enters() {
    let mut cluster = Cluster::start().await;
    let home = cluster.url(Way::Direct).to_owned();
    let by = |forwarded: bool| forwarded.then(|| home.clone());
    let content = cluster.content().await;
    for row in rows() {
        for (way, kind) in WAYS.into_iter().flat_map(|way| KINDS.map(|kind| (way, kind))) {
            let Cell::Refused(status, code) = expected(&row, kind, way) else { continue };
            let what = format!("{} by {kind:?}, {way:?}", row.name());
            let token = kind.token(&row);
            let holding = cluster.held.get(&token).filter(|_| kind != Kind::Thief);
            let holding = holding.unwrap_or(&cluster.held["right"]);
            let reply = cluster.call(way, &token, &row, holding).await;
            assert_eq!(outcome(&row, &reply), (status, code.to_owned()), "{what}");
            let forwarded = by(is_forwarded(&row, kind, way));
            assert_eq!(answered_by(&row, &reply), forwarded, "{what}: {}", reply.text());
        }
        assert_eq!(cluster.content().await, content, "{}", row.name());
    }
    for row in rows() {
        for (way, kind) in WAYS.into_iter().flat_map(|way| KINDS.map(|kind| (way, kind))) {
            if expected(&row, kind, way) != Cell::Served {
                continue;
            }
            let what = format!("{} by {kind:?}, {way:?}", row.name());
            let holding = cluster.shown(&row, kind).await;
            let reply = cluster.call(way, &kind.token(&row), &row, &holding).await;
            let (status, _) = outcome(&row, &reply);
            // A pool of keys that the caller may not read is unknown to it.
            let fits = status == row.served
                || kind == Kind::OtherPrefix && row.by == By::Entries && status == 404;
            assert!(fits, "{what}: {}", reply.text());
            let forwarded = by(is_forwarded(&row, kind, way));
            assert_eq!(answered_by(&row, &reply), forwarded, "{what}: {}", reply.text());
            if row.goes == Goes::Everywhere {
                let revoked = reply.json()["revoked"].as_u64();
                assert!(revoked >= Some(1), "{what}: the home node was asked: {}", reply.text());
            }
        }
    }
}
