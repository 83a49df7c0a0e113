//! What operations cost, in requests. `docs/dynamodb.md` has the table.

use std::time::Duration;

use tenure::{
    lease::{NodeState, Revision},
    store::{LeaseStore, dynamodb::Options},
};

use crate::{endpoint::Endpoint, kit::*, proxy::Proxy};

#[tokio::test]
async fn changes_of_many_leases_share_a_write_of_the_log() {
    let endpoint = Endpoint::start();
    let proxy = Proxy::start(endpoint.addr()).await;
    let store = open_with(
        Options { flush_interval: Duration::from_millis(200), ..options(&proxy.url()) },
        None,
    )
    .await
    .unwrap();
    let mut feed = store.feed();
    let (puts, gets) = (proxy.count("PutItem"), proxy.count("GetItem"));
    let keys: Vec<_> = (0..100).map(|n| key(&format!("k{n}"))).collect();
    let writes = keys.iter().map(|key| store.compare_and_set(grant(key, Revision::ABSENT, "w", 1)));
    futures_util::future::join_all(writes).await;
    let heard = listen(&mut feed, 100).await;
    heard.check();
    let puts = proxy.count("PutItem") - puts;
    assert!(puts <= 100 + 3, "{puts} writes for 100 leases and their changes");
    assert_eq!(proxy.count("GetItem"), gets, "who writes knows what it overwrites");
    // An overwrite needs no read either.
    let found = store.read(&keys[0]).await.unwrap().unwrap();
    let gets = proxy.count("GetItem");
    commit(&store, grant(&keys[0], found.revision, "w2", 2)).await;
    assert_eq!(proxy.count("GetItem"), gets);
}

#[tokio::test]
async fn a_renewal_of_a_nodes_record_is_one_write_and_nothing_else() {
    let endpoint = Endpoint::start();
    let proxy = Proxy::start(endpoint.addr()).await;
    let store = open(&proxy.url()).await;
    let (puts, gets) = (proxy.count("PutItem"), proxy.count("GetItem"));
    let mut revision = Revision::ABSENT;
    for _ in 0..10 {
        revision = write_node(&store, revision, node(7, NodeState::Alive)).await;
    }
    assert_eq!(proxy.count("UpdateItem"), 10);
    assert_eq!((proxy.count("PutItem"), proxy.count("GetItem")), (puts, gets));
}
