//! Nodes that advertise https addresses, and nodes whose ports speak TLS.

use std::{net::SocketAddr, path::PathBuf};

use serde_json::json;

use crate::support::{
    clock::{ms, within},
    nats_server::Server,
    node::Node,
    ports::free_port,
    tls::{Certificates, Front},
};

struct Cluster {
    store: Server,
    certificates: Certificates,
}

impl Cluster {
    /// A node with a front, which trusts this authority.
    async fn node(&self, name: &str, ca: PathBuf) -> (Node, Front) {
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let front = Front::start(&self.certificates, "server", listen);
        let sets = [
            "store.kind=nats".to_owned(),
            format!("store.nats.url={}", self.store.url()),
            "store.nats.replicas=1".to_owned(),
            "node.ttl=2s".to_owned(),
            "node.witness=".to_owned(),
            format!("node.advertise_url={}", front.url()),
            format!("node.ca={}", ca.display()),
        ];
        let mut node = Node::at(listen, name, &sets, &[]);
        node.start().await;
        (node, front)
    }
}

async fn knows(node: &Node, count: usize) {
    let known = async || node.get("/v1/nodes").await["nodes"].as_array().map_or(0, Vec::len);
    assert!(within(ms(15_000), async || known().await == count).await, "it knows {count} nodes");
}

#[tokio::test]
async fn calls_are_passed_on_by_https_and_to_nobody_who_cannot_prove_who_it_is() {
    let cluster = Cluster { store: Server::start(), certificates: Certificates::make() };
    let ca = cluster.certificates.path("ca.pem");
    let (a, front_a) = cluster.node("a", ca.clone()).await;
    let (b, front_b) = cluster.node("b", ca).await;
    let (c, _front) = cluster.node("c", cluster.certificates.path("stranger.pem")).await;
    for node in [&a, &b, &c] {
        knows(node, 3).await;
    }
    for (home, other, front) in [(&a, &b, &front_a), (&b, &a, &front_b)] {
        let key = format!("k/{}", front.addr.port());
        let body = json!({ "key": key, "owner": "w", "ttl_ms": 20_000 });
        let (status, grant) = home.post("/v1/acquire", &body).await;
        assert_eq!((status, &grant["node"]), (200, &front.url().into()), "{grant}");
        let proof = json!({ "key": key, "lease_id": grant["lease_id"] });
        let before = front.heard();
        let (status, answer) = other.post("/v1/heartbeat", &proof).await;
        assert_eq!(status, 200, "{answer}");
        assert!(front.heard() > before, "it was asked by TLS");
        let heard = front.heard();
        let (status, problem) = c.post("/v1/heartbeat", &proof).await;
        assert_eq!((status, &problem["code"]), (503, &"home-unreachable".into()), "{problem}");
        assert_eq!(front.heard(), heard, "who trusts another authority tells nothing");
    }
    let said = c.said();
    assert!(said.contains("UnknownIssuer") && said.contains("node.ca"), "{said}");
}

#[tokio::test]
async fn nodes_pass_calls_on_to_each_others_ports() {
    let (store, certificates) = (Server::start(), Certificates::make());
    let node = async |name: &str, ca: &str| {
        let file = |file: &str| certificates.path(file).display().to_string();
        let sets = [
            format!("server.tls_cert={}", file("server.pem")),
            format!("server.tls_key={}", file("server.key")),
            "store.kind=nats".to_owned(),
            format!("store.nats.url={}", store.url()),
            "store.nats.replicas=1".to_owned(),
            "node.ttl=2s".to_owned(),
            "node.witness=".to_owned(),
            format!("node.ca={}", file(ca)),
        ];
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let node = Node::at(listen, name, &sets, &[]);
        let mut node = node.trusted_by(&certificates.path("ca.pem"));
        node.start().await;
        node
    };
    let (a, b, c) =
        (node("a", "ca.pem").await, node("b", "ca.pem").await, node("c", "stranger.pem").await);
    for node in [&a, &b, &c] {
        knows(node, 3).await;
    }
    for (home, other) in [(&a, &b), (&b, &a)] {
        let body = json!({ "key": home.url, "owner": "w", "ttl_ms": 20_000 });
        let (status, grant) = home.post("/v1/acquire", &body).await;
        assert_eq!((status, &grant["node"]), (200, &json!(home.url)), "{grant}");
        let proof = json!({ "key": home.url, "lease_id": grant["lease_id"] });
        let (status, answer) = other.post("/v1/heartbeat", &proof).await;
        assert_eq!(status, 200, "{answer}");
        let (status, problem) = c.post("/v1/heartbeat", &proof).await;
        assert_eq!((status, &problem["code"]), (503, &json!("home-unreachable")), "{problem}");
    }
}
