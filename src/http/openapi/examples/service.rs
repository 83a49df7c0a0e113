//! Probes and information, of a coordinator that has just started.

use super::{
    call::Call,
    values::{NODE, STORE},
};
use crate::api::{Info, Live, Node, Nodes, Ready};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const METRICS: &str = "\
# TYPE tenure_leases_held gauge
tenure_leases_held{pool=\"default\"} 1

# TYPE tenure_sessions gauge
tenure_sessions{pool=\"default\"} 0
";

/// The examples.
pub fn calls() -> Vec<Call> {
    let info = Info {
        version: VERSION,
        node: NODE.into(),
        store: "embedded",
        epoch: 0,
        store_id: STORE.into(),
        open: true,
        node_ttl_ms: None,
    };
    let node = Node {
        url: NODE.into(),
        state: "alive".into(),
        version: VERSION.into(),
        incarnation: "0d8b204c1bab8dfbd97bc701588537f6".into(),
        this: true,
        access_digest: Some("5d0c7e1a".into()),
        ..Node::default()
    };
    vec![
        Call::plain(["livez", "alive"], "The process answers", Live { live: true }),
        Call::plain(
            ["readyz", "ready"],
            "Traffic may be sent",
            Ready { ready: true, reasons: Vec::new() },
        ),
        Call::plain(["info", "embedded"], "A coordinator on the embedded store", info),
        Call::plain(
            ["nodes", "one-node"],
            "The only coordinator on its store",
            Nodes { nodes: vec![node] },
        ),
        Call::text(["metrics", "gauges"], "Two of the metrics", "text/plain", METRICS),
    ]
}
