//! A table with a stream of changes.

use std::time::Duration;

use aws_sdk_dynamodb::types::{StreamSpecification, StreamViewType};
use tenure::{lease::Revision, store::LeaseStore};

use crate::dynamodb::kit::*;
use crate::support::proxy::{Fate, HttpProxy};

use crate::support::dynamo_endpoint::Endpoint;

async fn enable_stream(url: &str) {
    let spec = StreamSpecification::builder().stream_enabled(true);
    let spec = spec.stream_view_type(StreamViewType::KeysOnly).build().unwrap();
    let update = client(url).update_table().table_name(TABLE);
    update.stream_specification(spec).send().await.unwrap();
    eventually("enabled", async || {
        let found = client(url).describe_table().table_name(TABLE).send().await.unwrap();
        let found = found.table.unwrap();
        found.stream_specification().is_some() && found.latest_stream_arn().is_some()
    })
    .await;
}

#[tokio::test]
async fn the_stream_says_when_to_look_and_when_it_fails_the_log_is_polled() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let writer = open(&endpoint.url()).await;
    enable_stream(&endpoint.url()).await;
    let reader = open(&proxy.url()).await;
    eventually("followed", async || proxy.count("GetRecords") > 1).await;
    let mut feed = reader.feed();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = proxy.count("Query");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(proxy.count("Query") <= idle + 2, "while nothing happens the log is left alone");
    let first = commit(&writer, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    let told = tokio::time::timeout(Duration::from_secs(2), listen(&mut feed, 1)).await;
    assert_eq!(told.expect("sooner than by polling").seqs[&key("k")], [1]);
    // The stream turns us away, as it does with more than two readers.
    proxy.rule(|operation, _| match operation {
        "GetRecords" | "GetShardIterator" => Fate::Answer(400, "LimitExceededException"),
        _ => Fate::Pass,
    });
    let turned = proxy.count("GetShardIterator");
    eventually("turned away", async || proxy.count("GetShardIterator") > turned).await;
    commit(&writer, grant(&key("k"), first, "w2", 2)).await;
    assert_eq!(listen(&mut feed, 1).await.seqs[&key("k")], [2]);
}
