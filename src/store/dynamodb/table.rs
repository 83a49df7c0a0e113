//! The table itself: whether it exists, whether it is usable, and whether it is still the same.

use std::time::Duration;

use aws_sdk_dynamodb::{
    operation::create_table::CreateTableError,
    types::{
        AttributeDefinition, BillingMode, KeySchemaElement, KeyType, MultiRegionConsistency,
        ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification,
    },
};

use super::{
    client::{Client, Failure, FailureKind},
    error::DynamoOpenError,
};

/// How long a new table may take to become active, in seconds.
const ACTIVE_WITHIN: u32 = 120;
/// How often it is checked.
const ACTIVE_POLL: Duration = Duration::from_millis(500);

/// How many requests for the table's description may stay without an answer before the opening fails.
const UNANSWERED: u32 = 3;

/// What distinguishes a table from another one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The `TableId`. If the endpoint gives none, the time of the table's creation.
    pub id: String,
    /// Its stream of changes, if one is enabled.
    pub stream: Option<String>,
}

/// Finds the table, or creates it. Returns its identity.
pub(super) async fn open(client: &Client, create: bool) -> Result<Identity, DynamoOpenError> {
    let table = client.table.clone();
    let (mut made, mut unanswered) = (false, 0);
    for _ in 0..ACTIVE_WITHIN * 2 {
        match describe(client).await {
            Ok(found) => {
                if found.table_status() != Some(&TableStatus::Creating) {
                    check(&table, &found)?;
                    if made {
                        enable_ttl(client).await;
                    }
                    return Ok(identity(&found));
                }
            }
            // A node that starts while the endpoint is slow does not have to be started again.
            Err(failure) if failure.kind == FailureKind::Unknown && unanswered + 1 < UNANSWERED => {
                unanswered += 1;
            }
            Err(failure) if failure.kind != FailureKind::Gone => {
                return Err(DynamoOpenError::Unavailable { table, why: failure.why });
            }
            Err(_) if made => {}
            Err(_) if create => {
                make(client).await?;
                made = true;
                continue;
            }
            Err(_) => return Err(DynamoOpenError::NoTable { table }),
        }
        tokio::time::sleep(ACTIVE_POLL).await;
    }
    let why = format!("it is not active after {ACTIVE_WITHIN} s");
    Err(DynamoOpenError::Unavailable { table, why })
}

pub(super) async fn describe(client: &Client) -> Result<TableDescription, Failure<()>> {
    let request = client.db.describe_table().table_name(&client.table).send();
    let reply = client.send("DescribeTable", request).await;
    let reply = reply.map_err(|f| Failure { kind: f.kind, why: f.why, service: None })?;
    let none = || Failure {
        kind: FailureKind::Unknown,
        why: "DescribeTable: an empty answer".to_owned(),
        service: None,
    };
    reply.table.ok_or_else(none)
}

pub(super) fn identity(found: &TableDescription) -> Identity {
    let made = found.creation_date_time().map_or(0, |at| at.to_millis().unwrap_or(0));
    let id = found.table_id().map_or_else(|| format!("created:{made}"), str::to_owned);
    let on = found.stream_specification().is_some_and(|stream| stream.stream_enabled());
    let stream = found.latest_stream_arn().filter(|_| on).map(str::to_owned);
    Identity { id, stream }
}

/// Refuses a table that cannot hold a store.
pub(super) fn check(table: &str, found: &TableDescription) -> Result<(), DynamoOpenError> {
    let type_of = |name: &str| {
        let mut all = found.attribute_definitions().iter();
        all.find(|a| a.attribute_name() == name).map(|a| a.attribute_type().as_str().to_owned())
    };
    let mut keys: Vec<String> = Vec::new();
    for part in found.key_schema() {
        let name = part.attribute_name();
        let kind = type_of(name).unwrap_or_default();
        keys.push(format!("{} {name} ({kind})", part.key_type().as_str()));
    }
    if keys != ["HASH pk (S)", "RANGE sk (S)"] {
        return Err(DynamoOpenError::KeySchema { table: table.to_owned(), found: keys.join(", ") });
    }
    let replicas = found.replicas();
    let strong = found.multi_region_consistency() == Some(&MultiRegionConsistency::Strong);
    if !replicas.is_empty() && !strong {
        let regions: Vec<_> = replicas.iter().filter_map(|one| one.region_name()).collect();
        let regions = regions.join(", ");
        return Err(DynamoOpenError::EventuallyConsistent { table: table.to_owned(), regions });
    }
    Ok(())
}

async fn make(client: &Client) -> Result<(), DynamoOpenError> {
    let bad = |why: String| DynamoOpenError::Unavailable { table: client.table.clone(), why };
    let attribute = |name: &str| {
        let builder = AttributeDefinition::builder().attribute_name(name);
        builder.attribute_type(ScalarAttributeType::S).build().map_err(|e| bad(e.to_string()))
    };
    let key = |name: &str, kind| {
        let builder = KeySchemaElement::builder().attribute_name(name);
        builder.key_type(kind).build().map_err(|e| bad(e.to_string()))
    };
    let request = client
        .db
        .create_table()
        .table_name(&client.table)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("pk")?)
        .attribute_definitions(attribute("sk")?)
        .key_schema(key("pk", KeyType::Hash)?)
        .key_schema(key("sk", KeyType::Range)?);
    match client.send("CreateTable", request.send()).await {
        Ok(_) => Ok(()),
        // Another node created it first.
        Err(Failure { service: Some(CreateTableError::ResourceInUseException(_)), .. }) => Ok(()),
        // The table may have been created. Its description shows whether it was.
        Err(failure) if failure.kind == FailureKind::Unknown => Ok(()),
        Err(failure) => Err(bad(failure.why)),
    }
}

/// Makes the table delete old entries of the log by itself, free of charge. Without this, the store deletes them.
async fn enable_ttl(client: &Client) {
    let spec = TimeToLiveSpecification::builder().attribute_name("ttl").enabled(true).build();
    let Ok(spec) = spec else { return };
    let request = client.db.update_time_to_live().table_name(&client.table);
    let request = request.time_to_live_specification(spec).send();
    if let Err(failure) = client.send("UpdateTimeToLive", request).await {
        tracing::warn!(why = failure.why, "no ttl on the table: tenure deletes old entries");
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::ReplicaDescription;

    use super::*;

    fn good() -> aws_sdk_dynamodb::types::builders::TableDescriptionBuilder {
        let attribute = |name: &str| {
            let builder = AttributeDefinition::builder().attribute_name(name);
            builder.attribute_type(ScalarAttributeType::S).build().unwrap()
        };
        let key = |name: &str, kind| {
            KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap()
        };
        TableDescription::builder()
            .attribute_definitions(attribute("sk"))
            .attribute_definitions(attribute("pk"))
            .key_schema(key("pk", KeyType::Hash))
            .key_schema(key("sk", KeyType::Range))
    }

    #[test]
    fn regions_that_agree_only_after_a_while_are_refused() {
        assert!(check("t", &good().build()).is_ok());
        let replica = ReplicaDescription::builder().region_name("eu-west-1").build();
        let lazy = check("t", &good().replicas(replica.clone()).build());
        assert!(matches!(lazy, Err(DynamoOpenError::EventuallyConsistent { .. })), "{lazy:?}");
        let strong = good().replicas(replica);
        let strong = strong.multi_region_consistency(MultiRegionConsistency::Strong).build();
        assert!(check("t", &strong).is_ok());
    }

    #[test]
    fn other_keys_are_refused() {
        let other = check("t", &TableDescription::builder().build());
        assert!(matches!(other, Err(DynamoOpenError::KeySchema { .. })), "{other:?}");
    }
}
