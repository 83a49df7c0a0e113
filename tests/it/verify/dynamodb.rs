//! A table.

use serde_json::{Value, json};

use crate::{
    backup::{node::Place, shared::table_at},
    support::{
        dynamo_endpoint::Endpoint,
        http,
        proxy::{Fate, HttpProxy},
    },
    verify::{set, verify},
};

/// A request that no store makes; its answer.
async fn ask(endpoint: &Endpoint, operation: &str, body: Value) -> Value {
    let request = http::client()
        .post(endpoint.url())
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .header("x-amz-date", "20260101T000000Z")
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, \
             SignedHeaders=host, Signature=00",
        )
        .body(body.to_string());
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let text = answer.text().await.expect("a body");
    assert!(status.is_success(), "{operation}: {status}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Everything in the table, in the order of its text.
async fn contents(endpoint: &Endpoint) -> Vec<String> {
    let all = ask(endpoint, "Scan", json!({ "TableName": "tenure" })).await;
    let mut items: Vec<String> =
        all["Items"].as_array().expect("items").iter().map(ToString::to_string).collect();
    items.sort_unstable();
    items
}

fn table(endpoint: &Endpoint) -> Place {
    table_at(&endpoint.url())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_checked_while_coordinators_serve_and_stays_as_it_is() {
    let endpoint = Endpoint::start();
    let place = table(&endpoint);
    let node = place.serve().await;
    node.acquire("held", "worker", "v").await;
    node.acquire_and_release("free").await;
    let found = verify(&place);
    found.is_well_but(&[]);
    found.has("records", "ok", &["2 keys, 1 of them held"]);
    found.has("nodes", "ok", &[&*node.url, env!("CARGO_PKG_VERSION")]);
    node.acquire_and_release("more").await;
    node.stop().await;
    let before = contents(&endpoint).await;
    let found = verify(&place);
    found.is_well_but(&[]);
    found.has("nodes", "ok", &["none"]);
    assert_eq!(contents(&endpoint).await, before, "a check writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_there_yet_is_not_made() {
    let endpoint = Endpoint::start();
    let mut place = table(&endpoint);
    let found = verify(&place);
    found.is_well_but(&["table"]);
    found.has("table", "warning", &["the first coordinator makes it"]);
    set(&mut place, "store.dynamodb.create_table=false");
    verify(&place).failed("table", &["there is no table \"tenure\""]);
    let tables = ask(&endpoint, "ListTables", json!({})).await;
    assert_eq!(tables["TableNames"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_other_keys_fails() {
    let endpoint = Endpoint::start();
    let place = table(&endpoint);
    let other = json!({
        "TableName": "tenure",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
        "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
    });
    ask(&endpoint, "CreateTable", other).await;
    verify(&place).failed("table", &["HASH id (S)", "name another table"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_ttl_is_told() {
    let endpoint = Endpoint::start();
    let place = table(&endpoint);
    let attribute = |name: &str| json!({ "AttributeName": name, "AttributeType": "S" });
    let part = |name: &str, kind: &str| json!({ "AttributeName": name, "KeyType": kind });
    let plain = json!({
        "TableName": "tenure",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [attribute("pk"), attribute("sk")],
        "KeySchema": [part("pk", "HASH"), part("sk", "RANGE")],
    });
    ask(&endpoint, "CreateTable", plain).await;
    let found = verify(&place);
    found.is_well_but(&["table", "identity"]);
    found.has("table", "warning", &["TTL"]);
    found.has("identity", "warning", &["no store in the table yet"]);
    assert!(contents(&endpoint).await.is_empty(), "a check writes nothing");
}

/// Each operation is denied in turn, as an AWS policy does.
#[tokio::test(flavor = "multi_thread")]
async fn rights_that_the_credentials_lack_are_named() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let place = table_at(&proxy.url());
    place.serve().await.stop().await;
    verify(&place).is_well_but(&[]);
    for (denied, check) in [
        ("DescribeTable", "connection"),
        ("GetItem", "identity"),
        ("BatchGetItem", "rights"),
        ("PutItem", "rights"),
        ("UpdateItem", "rights"),
        ("DeleteItem", "rights"),
        ("BatchWriteItem", "rights"),
        ("Query", "nodes"),
        ("Scan", "records"),
    ] {
        proxy.rule(move |operation, _| {
            if operation == denied {
                Fate::Answer(400, "AccessDeniedException")
            } else {
                Fate::Pass
            }
        });
        let words = [denied, "AccessDeniedException", "docs/dynamodb.md"];
        verify(&place).failed(check, &words);
    }
    proxy.rule(|operation, _| {
        let denied = operation == "DescribeTimeToLive";
        if denied { Fate::Answer(400, "AccessDeniedException") } else { Fate::Pass }
    });
    let found = verify(&place);
    found.is_well_but(&["table"]);
    found.has("table", "warning", &["DescribeTimeToLive"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_deleted_fails_where_it_was_seen() {
    let endpoint = Endpoint::start();
    let place = table(&endpoint);
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
    ask(&endpoint, "DeleteTable", json!({ "TableName": "tenure" })).await;
    verify(&place).failed("table", &["this node saw it before", "a store that went backwards"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_none_is_named() {
    let endpoint = Endpoint::start();
    let place = table(&endpoint);
    let node = place.serve().await;
    node.acquire_and_release("odd").await;
    node.acquire_and_release("sound").await;
    node.stop().await;
    let odd = json!({
        "TableName": "tenure",
        "Key": { "pk": { "S": "l#odd" }, "sk": { "S": "l" } },
        "UpdateExpression": "SET #record = :none",
        "ExpressionAttributeNames": { "#record": "record" },
        "ExpressionAttributeValues": { ":none": { "B": "AAAAAAAA" } },
    });
    ask(&endpoint, "UpdateItem", odd).await;
    verify(&place).failed("records", &["1 of 2 keys", "\"odd\"", "restore a backup"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_away_fails() {
    let endpoint = Endpoint::start();
    let place = table(&endpoint);
    drop(endpoint);
    verify(&place).failed("connection", &["table \"tenure\""]);
}
