//! §8: an application's own write, gated on a tenure, in the store that both use.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
    types::{AttributeValue, ConditionCheck, Put, TransactWriteItem},
};
use serde_json::Value;

use crate::nodes::pair::{Pair, Store, acquire};

async fn gate(pair: &Pair, key: &str) -> Value {
    pair.b.get(&format!("/v1/leases/{key}?gate=1")).await["gate"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_gated_on_the_present_tenure() {
    let pair = Pair::dynamodb().await;
    let Store::DynamoDb(endpoint) = &pair.store else { unreachable!() };
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("none", "none", None, None, "test"))
        .endpoint_url(endpoint.url())
        .build();
    let client = Client::from_conf(config);
    let passes = async |gate: &Value, n: u32| -> bool {
        let check = &gate["condition_check"];
        let value = |value: &Value| {
            let (kind, text) = value.as_object().and_then(|v| v.iter().next()).expect("a value");
            let text = text.as_str().expect("text").to_owned();
            if kind == "N" { AttributeValue::N(text) } else { AttributeValue::S(text) }
        };
        let text = |v: &Value| v.as_str().expect("text").to_owned();
        let map = |v: &Value| -> HashMap<String, AttributeValue> {
            v.as_object().expect("a map").iter().map(|(k, v)| (k.clone(), value(v))).collect()
        };
        let names = check["ExpressionAttributeNames"].as_object().expect("names");
        let condition = ConditionCheck::builder()
            .table_name(text(&check["TableName"]))
            .set_key(Some(map(&check["Key"])))
            .condition_expression(text(&check["ConditionExpression"]))
            .set_expression_attribute_names(Some(
                names.iter().map(|(name, v)| (name.clone(), text(v))).collect(),
            ))
            .set_expression_attribute_values(Some(map(&check["ExpressionAttributeValues"])))
            .build()
            .expect("a condition");
        let mine = Put::builder()
            .table_name(text(&check["TableName"]))
            .item("pk", AttributeValue::S(format!("app#{n}")))
            .item("sk", AttributeValue::S("app".into()))
            .build()
            .expect("a put");
        let sent = client
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().condition_check(condition).build())
            .transact_items(TransactWriteItem::builder().put(mine).build())
            .send()
            .await;
        sent.is_ok()
    };
    let first = acquire(&pair.a, "gated", "w1", 30_000).await;
    let gate_1 = gate(&pair, "gated").await;
    assert_eq!(gate_1["kind"], "dynamodb", "{gate_1}");
    assert!(passes(&gate_1, 1).await);
    // A heartbeat with a value writes the record, and is still the same tenure.
    let mut beat = first.proof();
    beat["value"] = "progress".into();
    assert_eq!(pair.b.post("/v1/heartbeat", &beat).await.0, 200);
    assert!(passes(&gate_1, 2).await);
    pair.a.post("/v1/release", &first.proof()).await;
    assert!(!passes(&gate_1, 3).await, "nobody holds it");
    assert_eq!(gate(&pair, "gated").await, Value::Null);
    acquire(&pair.b, "gated", "w1", 30_000).await;
    assert!(!passes(&gate_1, 4).await, "the same owner, another tenure");
    assert!(passes(&gate(&pair, "gated").await, 5).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_is_gated_on_the_present_tenure() {
    let pair = Pair::nats().await;
    let Store::Nats(server) = &pair.store else { unreachable!() };
    let client = async_nats::connect(server.url()).await.expect("a connection");
    let jetstream = async_nats::jetstream::new(client);
    let passes = async |gate: &Value, what: &str| -> bool {
        let mut headers = async_nats::HeaderMap::new();
        for (name, value) in gate["headers"].as_object().expect("headers") {
            headers.insert(name.as_str(), value.as_str().expect("text"));
        }
        let subject = format!("{}{what}", gate["publish_prefix"].as_str().expect("a prefix"));
        let sent = jetstream.publish_with_headers(subject, headers, what.to_owned().into()).await;
        sent.expect("sent").await.is_ok()
    };
    let first = acquire(&pair.a, "gated", "w1", 30_000).await;
    let gate_1 = gate(&pair, "gated").await;
    assert_eq!(gate_1["kind"], "nats", "{gate_1}");
    assert!(passes(&gate_1, "one").await);
    assert!(passes(&gate_1, "two").await, "own writes do not end it");
    pair.a.post("/v1/release", &first.proof()).await;
    assert!(!passes(&gate_1, "three").await, "nobody holds it");
    assert_eq!(gate(&pair, "gated").await, Value::Null);
    acquire(&pair.b, "gated", "w1", 30_000).await;
    assert!(!passes(&gate_1, "four").await, "the same owner, another tenure");
    assert!(passes(&gate(&pair, "gated").await, "five").await);
}
