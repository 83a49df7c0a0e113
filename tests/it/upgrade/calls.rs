//! A node that knows a later version of calls between nodes speaks the earlier one to nodes that know no other.

use serde_json::json;

use crate::{
    nodes::pair::{ENVIRONMENT, Pair, acquire, heartbeat_until_answered},
    support::{clock::eventually, node::Node},
};

/// What makes a program of a later release.
const LATER: (&str, &str) = ("TENURE_TEST_SEAL", "3,2,1");
/// The variable for a program of an earlier release, whose proofs do not name the run of their receiver.
const EARLIER: (&str, &str) = ("TENURE_TEST_SEAL", "1");
/// What makes one that knows this version no more.
const MUCH_LATER: (&str, &str) = ("TENURE_TEST_SEAL", "4,3");

/// One more node on the pair's store.
async fn join(pair: &Pair, name: &str, seal: (&str, &str)) -> Node {
    let environment = [&ENVIRONMENT[..], &[seal]].concat();
    let mut node = Node::new(name, &pair.sets, &environment).configured(&pair.settings());
    node.start().await;
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_version_is_not_spoken_to_a_node_that_does_not_know_it() {
    let pair = Pair::nats().await;
    let later = join(&pair, "later", LATER).await;
    let at_a = acquire(&pair.a, "at-a", "w", 60_000).await;
    for _ in 0..3 {
        let (status, beat) = heartbeat_until_answered(&later, &at_a).await;
        assert_eq!((status, &beat["token"]), (200, &json!(at_a.token)), "{beat}");
    }
    let said = later.said();
    assert!(!said.contains("rejects forwarded calls"), "it spoke no other one first: {said}");
    // The other way, the older version is spoken and understood.
    let at_later = acquire(&later, "at-later", "w", 60_000).await;
    let (status, beat) = heartbeat_until_answered(&pair.a, &at_later).await;
    assert_eq!(status, 200, "{beat}");
    // Two that know the later version speak it.
    let other = join(&pair, "other", LATER).await;
    let (status, beat) = heartbeat_until_answered(&other, &at_later).await;
    assert_eq!(status, 200, "{beat}");
    assert!(!other.said().contains("rejects forwarded calls"), "{}", other.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_names_no_run_and_one_that_does_understand_each_other() {
    let pair = Pair::nats().await;
    let earlier = join(&pair, "earlier", EARLIER).await;
    let at_a = acquire(&pair.a, "at-a", "w", 60_000).await;
    let at_earlier = acquire(&earlier, "at-earlier", "w", 60_000).await;
    for (node, grant) in [(&earlier, &at_a), (&pair.a, &at_earlier), (&pair.b, &at_earlier)] {
        let (status, beat) = heartbeat_until_answered(node, grant).await;
        assert_eq!(status, 200, "{beat}");
    }
    let versions = pair.a.get("/v1/nodes").await;
    for node in versions["nodes"].as_array().expect("nodes") {
        assert_eq!(node["version"], env!("CARGO_PKG_VERSION"), "{node}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_a_common_version_say_so_and_nothing_is_lost() {
    let pair = Pair::nats().await;
    let stranger = join(&pair, "stranger", MUCH_LATER).await;
    let at_a = acquire(&pair.a, "at-a", "w", 60_000).await;
    eventually("the home node cannot be reached", async || {
        let (status, refused) = stranger.post("/v1/heartbeat", &at_a.proof()).await;
        assert_eq!(status, 503, "{refused}");
        refused["code"] == "home-unreachable"
    })
    .await;
    let said = stranger.said();
    assert!(
        said.contains("rejects forwarded calls") && said.contains("one release apart"),
        "{said}"
    );
    let (status, beat) = pair.a.post("/v1/heartbeat", &at_a.proof()).await;
    assert_eq!(status, 200, "its home node serves it: {beat}");
}
