//! What operations cost, in requests and in the units that the endpoint charges. `docs/dynamodb.md`
//! has the table.

use std::time::Duration;

use tenure::{
    lease::{NodeState, Revision},
    store::{LeaseStore, Range, dynamodb::Options},
};

use crate::{dynamodb::kit::*, support::proxy::HttpProxy};

use crate::support::dynamo_endpoint::Endpoint;

#[tokio::test]
async fn changes_of_many_leases_share_a_write_of_the_log() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let flush_interval = Duration::from_millis(200);
    let options = Options { flush_interval, ..options(&proxy.url()) };
    let store = open_with(options, None).await.unwrap();
    let mut feed = store.feed();
    let (puts, gets) = (proxy.count("PutItem"), proxy.count("GetItem"));
    let logged = proxy.units("PutItem", "log");
    let keys: Vec<_> = (0..100).map(|n| key(&format!("jobs/{n:06}"))).collect();
    let owner = "worker-17.example.net";
    let writes =
        keys.iter().map(|key| store.compare_and_set(grant(key, Revision::ABSENT, owner, 1)));
    futures_util::future::join_all(writes).await;
    let heard = listen(&mut feed, 100).await;
    heard.check();
    let puts = proxy.count("PutItem") - puts;
    assert!(puts <= 100 + 3, "{puts} writes for 100 leases and their changes");
    assert_eq!(proxy.count("GetItem"), gets, "who writes knows what it overwrites");
    let (leases, logged) = (proxy.units("PutItem", "l#"), proxy.units("PutItem", "log") - logged);
    println!("100 grants: {leases} write units for the leases, {logged} for the log");
    assert!(leases <= 100.0 && logged <= 15.0, "{leases} + {logged}");
    // An overwrite needs no read either.
    let found = store.read(&keys[0]).await.unwrap().unwrap();
    let (gets, read) = (proxy.count("GetItem"), proxy.units("GetItem", "l#"));
    commit(&store, grant(&keys[0], found.revision, "w2", 2)).await;
    assert_eq!(proxy.count("GetItem"), gets);
    store.scan(Range { limit: 100, ..Range::default() }).await.unwrap();
    let scanned = proxy.units("BatchGetItem", "l#");
    println!("a read: {read} read units; a page of 100: {scanned}");
    assert!(read <= 1.0 && scanned <= 100.0, "{read}, {scanned}");
}

#[tokio::test]
async fn a_renewal_of_a_nodes_record_is_one_write_unit_and_nothing_else() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let store = open(&proxy.url()).await;
    let (puts, gets) = (proxy.count("PutItem"), proxy.count("GetItem"));
    let mut revision = Revision::ABSENT;
    for _ in 0..10 {
        revision = write_node(&store, revision, node(7, NodeState::Alive)).await;
    }
    assert_eq!(proxy.count("UpdateItem"), 10);
    assert_eq!((proxy.count("PutItem"), proxy.count("GetItem")), (puts, gets));
    let units = proxy.units("UpdateItem", "nodes");
    println!("10 renewals: {units} write units");
    assert!(units <= 10.0, "{units}");
}

#[tokio::test]
async fn an_idle_store_reads_about_once_a_second() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let options = Options { poll_interval: Duration::from_millis(200), ..options(&proxy.url()) };
    let store = open_with(options, None).await.unwrap();
    eventually("idle", async || proxy.count("Query") > 12).await;
    let (queries, units) = (proxy.count("Query"), proxy.units("Query", "log"));
    let writes = proxy.count("PutItem") + proxy.count("UpdateItem");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (queries, units) = (proxy.count("Query") - queries, proxy.units("Query", "log") - units);
    println!("5 s idle: {queries} queries, {units} read units");
    assert!(queries <= 8 && units <= 8.0, "{queries}, {units}");
    assert_eq!(writes, proxy.count("PutItem") + proxy.count("UpdateItem"), "nothing is written");
    drop(store);
}
