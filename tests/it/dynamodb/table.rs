//! Which tables are opened.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tenure::{
    lease::{NodeState, Revision},
    store::{
        Health, LeaseStore, StoreError, WriteOutcome,
        dynamodb::{DynamoOpenError, Options},
    },
};

use crate::dynamodb::kit::*;
use crate::support::{
    dynamo_endpoint::Endpoint,
    proxy::{Fate, HttpProxy},
};

#[tokio::test]
async fn a_missing_table_is_made_only_when_that_is_allowed() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let error =
        open_with(Options { create_table: false, ..options(&url) }, None).await.unwrap_err();
    assert!(matches!(error, DynamoOpenError::NoTable { .. }), "{error}");
    assert!(error.to_string().contains("store.dynamodb.create_table"), "{error}");
    // By several at once.
    let opened = futures_util::future::join_all((0..3).map(|_| open(&url))).await;
    let identity = opened[0].meta().identity;
    for store in &opened {
        assert_eq!(store.health(), Health::Ready);
        assert_eq!(store.meta().identity, identity, "one store");
    }
    let made = client(&url).describe_table().table_name(TABLE).send().await.unwrap();
    let billing = made.table().unwrap().billing_mode_summary().unwrap().billing_mode().cloned();
    assert_eq!(billing, Some(BillingMode::PayPerRequest));
    let ttl = client(&url).describe_time_to_live().table_name(TABLE).send().await.unwrap();
    assert_eq!(ttl.time_to_live_description().unwrap().attribute_name(), Some("ttl"));
    let store = open_with(Options { create_table: false, ..options(&url) }, None).await.unwrap();
    assert_eq!(store.meta().identity, identity);
}

#[tokio::test]
async fn a_table_with_other_keys_is_refused() {
    let endpoint = Endpoint::start();
    let attribute = AttributeDefinition::builder().attribute_name("id");
    let attribute = attribute.attribute_type(ScalarAttributeType::S).build().unwrap();
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let make = client(&endpoint.url()).create_table().table_name(TABLE);
    let make = make.attribute_definitions(attribute).key_schema(key.build().unwrap());
    make.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
    let error = open_with(options(&endpoint.url()), None).await.unwrap_err();
    assert!(
        matches!(&error, DynamoOpenError::KeySchema { found, .. } if found.contains("id")),
        "{error}"
    );
}

#[tokio::test]
async fn an_endpoint_where_nobody_listens_is_said_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = open_with(options(&url), None).await.unwrap_err();
    assert!(matches!(error, DynamoOpenError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn the_number_of_keys_is_bounded() {
    let endpoint = Endpoint::start();
    let options = Options { max_keys: 2, ..options(&endpoint.url()) };
    let store = open_with(options, None).await.unwrap();
    let a = commit(&store, grant(&key("a"), Revision::ABSENT, "w", 1)).await;
    commit(&store, grant(&key("b"), Revision::ABSENT, "w", 1)).await;
    let third = store.compare_and_set(grant(&key("c"), Revision::ABSENT, "w", 1)).await;
    assert!(matches!(third, WriteOutcome::Refused(StoreError::TooManyKeys(2))), "{third:?}");
    commit(&store, grant(&key("a"), a, "w2", 2)).await;
}

#[tokio::test]
async fn a_table_whose_endpoint_is_slow_for_a_moment_is_opened() {
    let endpoint = Endpoint::start();
    drop(open(&endpoint.url()).await);
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let mut asked = 0;
    proxy.rule(move |operation: &str, _: &str| {
        asked += u32::from(operation == "DescribeTable");
        if asked <= 2 { Fate::Late(Duration::from_secs(5)) } else { Fate::Pass }
    });
    open(&proxy.url()).await;
    assert!(proxy.count("DescribeTable") >= 3);
}

#[tokio::test]
async fn who_opens_a_new_table_while_another_begins_its_log_writes_the_same_one() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    // After its look at the log, the later one is slow to read the items.
    let slow = |operation: &str, _: &str| match operation {
        "Scan" => Fate::Late(Duration::from_secs(1)),
        _ => Fate::Pass,
    };
    proxy.rule(slow);
    let url = proxy.url();
    let later = tokio::spawn(async move { open(&url).await });
    eventually("it reads the items", async || proxy.count("Scan") > 0).await;
    let first = open(&endpoint.url()).await;
    write_node(&first, Revision::ABSENT, node(1, NodeState::Alive)).await;
    let later = later.await.unwrap();
    let (mut heard_by_first, mut heard_by_later) = (first.feed(), later.feed());
    commit(&first, grant(&key("a"), Revision::ABSENT, "w1", 1)).await;
    assert_eq!(listen(&mut heard_by_later, 1).await.seqs[&key("a")], [1]);
    commit(&later, grant(&key("b"), Revision::ABSENT, "w2", 1)).await;
    assert_eq!(listen(&mut heard_by_first, 2).await.seqs[&key("b")], [1]);
    eventually("both have read the same log", async || first.latest() == later.latest()).await;
}
