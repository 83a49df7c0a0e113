//! Nodes' records.

use tenure::{
    lease::{NodeState, Nonce, Revision},
    store::{NodeOutcome, SharedStore},
};

use crate::dynamodb::kit::*;

use crate::support::dynamo_endpoint::Endpoint;

#[tokio::test]
async fn a_nodes_record_is_written_by_compare_and_set_and_seen_by_all() {
    let endpoint = Endpoint::start();
    let (a, b) = (open(&endpoint.url()).await, open(&endpoint.url()).await);
    assert!(a.scan_nodes().await.unwrap().is_empty());
    assert!(a.read_node(Nonce(7)).await.unwrap().is_none());
    let first = write_node(&a, Revision::ABSENT, node(7, NodeState::Alive)).await;
    let again = b.write_node(Revision::ABSENT, node(7, NodeState::Dead)).await;
    assert_eq!(again, NodeOutcome::Conflict);
    let second = write_node(&a, first, node(7, NodeState::Alive)).await;
    assert!(second > first);
    assert_eq!(b.write_node(first, node(7, NodeState::Dead)).await, NodeOutcome::Conflict);
    write_node(&b, Revision::ABSENT, node(8, NodeState::Alive)).await;
    let read = b.read_node(Nonce(7)).await.unwrap().unwrap();
    assert_eq!((read.incarnation, read.revision), (Nonce(7), second));
    assert_eq!(read.record.unwrap().state, NodeState::Alive);
    let third = write_node(&b, second, node(7, NodeState::Dead)).await;
    let mut all = a.scan_nodes().await.unwrap();
    all.sort_by_key(|node| node.incarnation);
    let states: Vec<_> = all.iter().map(|node| node.record.as_ref().unwrap().state).collect();
    assert_eq!(states, [NodeState::Dead, NodeState::Alive]);
    // Its item went back by a write, and was found dead: the revision is one that the node knows.
    let revived = a.write_node(third, node(7, NodeState::Alive)).await;
    assert_eq!(revived, NodeOutcome::Conflict, "a terminal record stays");
    assert!(a.forget_node(Nonce(7), second).await.is_err(), "another revision");
    a.forget_node(Nonce(7), third).await.unwrap();
    a.forget_node(Nonce(7), third).await.unwrap();
    assert!(b.read_node(Nonce(7)).await.unwrap().is_none());
    assert_eq!(b.scan_nodes().await.unwrap().len(), 1);
}
