//! An application's own write beside the lease's condition.

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Put, TransactWriteItem};
use tenure::{
    lease::{KeyState, Revision},
    store::{Gate, LeaseStore},
};

use crate::dynamodb::kit::*;

use crate::support::dynamo_endpoint::Endpoint;

/// Writes an item of the application's own table under a gate; whether it was written.
async fn write_under(url: &str, gate: &Gate) -> bool {
    let Gate::DynamoDb { table, key, expression, names, values } = gate else { panic!("{gate:?}") };
    let mut check = ConditionCheck::builder().table_name(table).condition_expression(expression);
    for (name, value) in key {
        check = check.key(name, AttributeValue::S(value.clone()));
    }
    for (name, attribute) in names {
        check = check.expression_attribute_names(name, attribute);
    }
    for (name, kind, value) in values {
        let value = match *kind {
            "S" => AttributeValue::S(value.clone()),
            "N" => AttributeValue::N(value.clone()),
            other => panic!("{other}"),
        };
        check = check.expression_attribute_values(name, value);
    }
    let own = Put::builder().table_name(TABLE).item("pk", text("own")).item("sk", text("x"));
    let check = TransactWriteItem::builder().condition_check(check.build().unwrap()).build();
    let own = TransactWriteItem::builder().put(own.build().unwrap()).build();
    let request = client(url).transact_write_items().transact_items(check).transact_items(own);
    let reply = request.send().await;
    if let Err(error) = &reply {
        let error = error.as_service_error().expect("a verdict of the service");
        assert!(error.is_transaction_canceled_exception(), "{error:?}");
    }
    reply.is_ok()
}

#[tokio::test]
async fn a_gate_opens_for_the_present_tenure_alone() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let store = open(&url).await;
    let key = key("jobs/1");
    commit(&store, grant(&key, Revision::ABSENT, "w1", 1)).await;
    let found = store.read(&key).await.unwrap().unwrap();
    let first = store.gate(&key, &found).unwrap();
    assert!(write_under(&url, &first).await, "the present tenure");
    // A write of the same tenure that changes something else: its token stays.
    let mut value = grant(&key, found.revision, "w1", 1);
    let mut record = (*value.record).clone();
    record.value = Some("checkpoint".into());
    let token = found.record.as_ref().unwrap().token(found.revision);
    record.tenure.as_mut().unwrap().token = token;
    (value.record, value.changes) = (std::sync::Arc::new(record), vec![]);
    let revision = commit(&store, value).await;
    assert!(write_under(&url, &first).await, "the tenure goes on");
    let found = store.read(&key).await.unwrap().unwrap();
    assert_eq!(store.gate(&key, &found), Some(first.clone()));
    // The same owner under a new tenure.
    let revision = commit(&store, grant(&key, revision, "w1", 2)).await;
    assert!(!write_under(&url, &first).await, "the same owner regained the key");
    let found = store.read(&key).await.unwrap().unwrap();
    let second = store.gate(&key, &found).unwrap();
    assert!(write_under(&url, &second).await, "the present tenure");
    // Free: nobody's.
    let mut release = grant(&key, revision, "w1", 3);
    let mut record = (*release.record).clone();
    (record.state, record.tenure) = (KeyState::Free, None);
    release.record = std::sync::Arc::new(record);
    commit(&store, release).await;
    assert!(!write_under(&url, &second).await, "released");
    let found = store.read(&key).await.unwrap().unwrap();
    assert_eq!(store.gate(&key, &found), None);
}
