//! What the credentials may do with a table, tried without changing it.
//!
//! Guarantees: no item is written or removed. Each write is of an item that does not exist, and only to happen if it
//! does, or removes such an item.

use aws_sdk_dynamodb::types::{DeleteRequest, KeysAndAttributes, WriteRequest};

use super::{
    client::{Client, Failure, FailureKind},
    layout::{Item, NODES, n, s},
};
use crate::lease::Nonce;

/// The condition of each write, which does not hold.
const EXISTS: &str = "attribute_exists(pk)";

/// The operations that are not allowed, or failed, each with the reason. `nobody` is a name that no node has.
pub(super) async fn missing(client: &Client, nobody: Nonce) -> Vec<String> {
    let key = Item::from([("pk".to_owned(), s(NODES)), ("sk".to_owned(), s(nobody.to_string()))]);
    let found = [
        put(client, &key).await,
        update(client, &key).await,
        delete(client, &key).await,
        batch_get(client, &key).await,
        batch_write(client, key).await,
    ];
    found.into_iter().flatten().collect()
}

/// What is wrong with the outcome of a write whose condition does not hold.
fn refused<T, E>(what: &str, sent: Result<T, Failure<E>>) -> Option<String> {
    match sent {
        Ok(_) => Some(format!("{what}: the table carried out what it must refuse")),
        Err(failure) if failure.kind == FailureKind::Condition => None,
        Err(failure) => Some(failure.why),
    }
}

async fn put(client: &Client, key: &Item) -> Option<String> {
    let put = client.db.put_item().table_name(&client.table).set_item(Some(key.clone()));
    let sent = client.send("PutItem", put.condition_expression(EXISTS).send()).await;
    refused("PutItem", sent)
}

async fn update(client: &Client, key: &Item) -> Option<String> {
    let update = client.db.update_item().table_name(&client.table).set_key(Some(key.clone()));
    let update = update
        .update_expression("SET #rev = :rev")
        .expression_attribute_names("#rev", "rev")
        .expression_attribute_values(":rev", n(0));
    let sent = client.send("UpdateItem", update.condition_expression(EXISTS).send()).await;
    refused("UpdateItem", sent)
}

async fn delete(client: &Client, key: &Item) -> Option<String> {
    let delete = client.db.delete_item().table_name(&client.table).set_key(Some(key.clone()));
    let sent = client.send("DeleteItem", delete.condition_expression(EXISTS).send()).await;
    refused("DeleteItem", sent)
}

async fn batch_get(client: &Client, key: &Item) -> Option<String> {
    let keys = KeysAndAttributes::builder().keys(key.clone()).consistent_read(true).build();
    let keys = match keys {
        Ok(keys) => keys,
        Err(why) => return Some(why.to_string()),
    };
    let get = client.db.batch_get_item().request_items(&client.table, keys);
    client.send("BatchGetItem", get.send()).await.err().map(|failure| failure.why)
}

async fn batch_write(client: &Client, key: Item) -> Option<String> {
    let delete = match DeleteRequest::builder().set_key(Some(key)).build() {
        Ok(delete) => WriteRequest::builder().delete_request(delete).build(),
        Err(why) => return Some(why.to_string()),
    };
    let write = client.db.batch_write_item().request_items(&client.table, vec![delete]);
    client.send("BatchWriteItem", write.send()).await.err().map(|failure| failure.why)
}
