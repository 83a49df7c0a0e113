//! Checks a table before a coordinator is started on it.
//!
//! Guarantees: no item is written or removed (see [`rights`]). The table is read once, which costs a read unit for each
//! 4 KB.

use aws_sdk_dynamodb::types::TableStatus;

use super::{
    client::{Client, FailureKind},
    error::DynamoOpenError,
    guard,
    layout::{self, Item, LEASE, LOG, LeaseItem, NODES, parse_entry, s},
    load::SLACK,
    meta, nodes,
    options::Options,
    own::{self, Own, suspicion},
    read::{Start, pages},
    rights,
    table::{self, Identity},
};
use crate::{
    lease::{Epoch, Nonce, StoreError},
    store::{
        Finding, FoundNode, Witness,
        verify::{self, Records},
    },
};

/// What to do about a request that is not allowed.
const RIGHTS: &str = "docs/dynamodb.md lists what the credentials must allow";

/// Checks the table of these options. `nobody` is a name that no node has. Runs on the caller's runtime.
pub async fn findings(options: &Options, nobody: Nonce, witness: Option<Witness>) -> Vec<Finding> {
    let client = match Client::new(options).await {
        Ok(client) => client,
        Err(why) => return vec![Finding::failed("connection", why)],
    };
    let name = client.table.clone();
    let described = match table::describe(&client).await {
        Ok(described) => described,
        Err(failure) if failure.kind == FailureKind::Gone => {
            return vec![absent(name, options.create_table, witness)];
        }
        Err(failure) => {
            let why = DynamoOpenError::Unavailable { table: name, why: failure.why };
            return vec![Finding::failed("connection", format!("{why}; {RIGHTS}"))];
        }
    };
    let mut found = vec![Finding::ok("connection", "DynamoDB answers")];
    if let Err(why) = table::check(&name, &described) {
        found.push(Finding::failed("table", why));
        return found;
    }
    if let Some(status) = described.table_status()
        && !matches!(status, TableStatus::Active | TableStatus::Updating)
    {
        let why = format!("table {name:?} is {}; wait until it is ACTIVE", status.as_str());
        found.push(Finding::failed("table", why));
        return found;
    }
    found.push(expiry(&client).await);
    found.push(match rights::missing(&client, nobody).await {
        missing if missing.is_empty() => {
            Finding::ok("rights", "the credentials allow to write and remove items")
        }
        missing => Finding::failed("rights", format!("{}; {RIGHTS}", missing.join("; "))),
    });
    let nodes = node_items(&client).await;
    let log = log_head(&client).await;
    let head = head(log, nodes.as_deref().unwrap_or_default());
    let (epoch, own) = own_record(&client, &table::identity(&described), head, witness).await;
    found.push(own);
    if let Some(epoch) = epoch {
        found.push(match records(&client, epoch).await {
            Ok(records) => records.finding(),
            Err(why) => Finding::failed("records", format!("{why}; {RIGHTS}")),
        });
    }
    found.push(match nodes {
        Ok(items) => {
            let of_node = |item: &Item| nodes::parse(item).map(|node| node.found);
            verify::nodes(&items.iter().filter_map(of_node).collect::<Vec<FoundNode>>())
        }
        Err(why) => Finding::failed("nodes", format!("{why}; {RIGHTS}")),
    });
    found
}

/// There is no table: whether the first coordinator makes it.
fn absent(table: String, create_table: bool, witness: Option<Witness>) -> Finding {
    if witness.is_some() {
        let why = format!("there is no table {table:?}, and this node saw it before");
        return Finding::failed("table", verify::frozen(&why));
    }
    if create_table {
        let why = format!("there is no table {table:?} yet; the first coordinator makes it");
        return Finding::warning("table", why);
    }
    Finding::failed("table", DynamoOpenError::NoTable { table })
}

/// Whether the table deletes old entries of the log by itself.
async fn expiry(client: &Client) -> Finding {
    match guard::by_table(client).await {
        Some(true) => Finding::ok("table", "its keys are right, and its TTL attribute is `ttl`"),
        Some(false) => Finding::warning(
            "table",
            "it has no TTL attribute `ttl`, so the coordinators delete old entries of the log, which costs as much as \
             writing them",
        ),
        None => Finding::warning("table", format!("DescribeTimeToLive was refused; {RIGHTS}")),
    }
}

/// Judges the store's own record. Gives its epoch, if the store can be opened.
async fn own_record(
    client: &Client,
    identity: &Identity,
    head: Result<u64, StoreError>,
    witness: Option<Witness>,
) -> (Option<Epoch>, Finding) {
    const CHECK: &str = "identity";
    let table = client.table.clone();
    let item = match meta::get(client).await {
        Ok(Some(item)) => item,
        Ok(None) if witness.is_some() => {
            let why = "the item `meta` is missing, and this node saw the store before";
            return (None, Finding::failed(CHECK, verify::frozen(why)));
        }
        Ok(None) => {
            let new = "there is no store in the table yet; the first coordinator makes it";
            return (None, Finding::warning(CHECK, new));
        }
        Err(why) => return (None, Finding::failed(CHECK, format!("{why}; {RIGHTS}"))),
    };
    let own: Own = match own::parse(&item) {
        Ok(own) if own.restoring => {
            return (None, Finding::failed(CHECK, DynamoOpenError::Restoring { table }));
        }
        Ok(own) => own,
        Err(why) => {
            return (None, Finding::failed(CHECK, DynamoOpenError::Damaged { table, why }));
        }
    };
    let epoch = own.meta.epoch;
    let finding = match head {
        Ok(head) => match suspicion(&own, identity, witness.as_ref(), head) {
            Some(why) => Finding::failed(CHECK, verify::frozen(&why)),
            None => verify::identity(own.meta.identity, epoch, own.meta.level),
        },
        Err(why) => Finding::failed(CHECK, format!("the log cannot be read: {why}; {RIGHTS}")),
    };
    (Some(epoch), finding)
}

/// The number of the last entry of the log; `None` if it has none.
async fn log_head(client: &Client) -> Result<Option<u64>, StoreError> {
    let query = client.db.query().table_name(&client.table).consistent_read(true);
    let query = query
        .key_condition_expression("pk = :log")
        .expression_attribute_values(":log", s(LOG))
        .scan_index_forward(false)
        .limit(1);
    let reply = client.send("Query log", query.send()).await;
    let reply = reply.map_err(|failure| StoreError::Unavailable(failure.why))?;
    Ok(reply.items().first().and_then(parse_entry).map(|(number, _)| number))
}

/// The end of the log, as a coordinator that opens the store takes it to be.
fn head(log: Result<Option<u64>, StoreError>, nodes: &[Item]) -> Result<u64, StoreError> {
    let seen = nodes.iter().filter_map(|item| layout::number(item, "head")).max().unwrap_or(0);
    let lost = if seen > 0 { seen + SLACK } else { 0 };
    log.map(|last| last.unwrap_or(lost))
}

/// The items of all nodes.
async fn node_items(client: &Client) -> Result<Vec<Item>, StoreError> {
    let mut items = Vec::new();
    pages(|start| nodes_page(client, start), |page: Vec<Item>| items.extend(page)).await?;
    Ok(items)
}

async fn nodes_page(
    client: &Client,
    start: Option<Start>,
) -> Result<(Vec<Item>, Option<Start>), StoreError> {
    let query = client.db.query().table_name(&client.table).consistent_read(true);
    let query = query
        .key_condition_expression("pk = :nodes")
        .expression_attribute_values(":nodes", s(NODES))
        .set_exclusive_start_key(start);
    let reply = client.send("Query nodes", query.send()).await;
    let reply = reply.map_err(|failure| StoreError::Unavailable(failure.why))?;
    Ok((reply.items.unwrap_or_default(), reply.last_evaluated_key))
}

/// Judges every lease's record.
async fn records(client: &Client, epoch: Epoch) -> Result<Records, StoreError> {
    let mut records = Records::new(epoch);
    let take = |page: Vec<Item>| {
        for lease in page.iter().filter_map(|item| LeaseItem::parse(item, None)) {
            records.take(lease.key.as_str(), lease.revision, lease.record.as_deref());
        }
    };
    pages(|start| leases_page(client, start), take).await?;
    Ok(records)
}

async fn leases_page(
    client: &Client,
    start: Option<Start>,
) -> Result<(Vec<Item>, Option<Start>), StoreError> {
    let scan = client.db.scan().table_name(&client.table).consistent_read(true);
    let scan = scan
        .filter_expression("sk = :lease")
        .expression_attribute_values(":lease", s(LEASE))
        .set_exclusive_start_key(start);
    let reply = client.send("Scan", scan.send()).await;
    let reply = reply.map_err(|failure| StoreError::Unavailable(failure.why))?;
    Ok((reply.items.unwrap_or_default(), reply.last_evaluated_key))
}
