//! The nodes' records.

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;

use super::{
    client::FailureKind,
    layout::{self, Item, NODES, b, n, s},
    read::{Start, pages},
    shared::DynamoShared,
};
use crate::{
    lease::{CodecError, NodeRecord, NodeState, Nonce, Revision, StoreError},
    store::{FoundNode, NodeOutcome},
};

/// A node's record, with the store session that wrote it while the node was alive.
pub(super) struct NodeItem {
    pub found: FoundNode,
    pub session: Option<Nonce>,
}

/// The node of an item.
pub(super) fn parse(item: &Item) -> Option<NodeItem> {
    let incarnation = layout::nonce(item, "sk")?;
    let record = layout::bytes(item, "record").ok_or(CodecError::Truncated);
    let record = record.and_then(NodeRecord::decode).and_then(|record| {
        // A record that names another incarnation is not judged.
        if record.incarnation == incarnation { Ok(record) } else { Err(CodecError::Checksum) }
    });
    let revision = Revision(layout::number(item, "rev").unwrap_or(0));
    let found = FoundNode { incarnation, revision, record };
    Some(NodeItem { found, session: layout::nonce(item, "session") })
}

impl DynamoShared {
    pub async fn read_node(&self, incarnation: Nonce) -> Result<Option<FoundNode>, StoreError> {
        let reply = self
            .send_read("GetItem node", || {
                let get = self.client.db.get_item().table_name(&self.client.table);
                let get = get.key("pk", s(NODES)).key("sk", s(incarnation.to_string()));
                let get = get.return_consumed_capacity(ReturnConsumedCapacity::Total);
                get.consistent_read(true).send()
            })
            .await?;
        self.charge_read(reply.consumed_capacity());
        Ok(reply.item().and_then(parse).map(|node| node.found))
    }

    pub async fn all_nodes(&self) -> Result<Vec<NodeItem>, StoreError> {
        let mut nodes = Vec::new();
        pages(|start| self.nodes_page(start), |page: Vec<NodeItem>| nodes.extend(page)).await?;
        Ok(nodes)
    }

    async fn nodes_page(
        &self,
        start: Option<Start>,
    ) -> Result<(Vec<NodeItem>, Option<Start>), StoreError> {
        let reply = self
            .send_read("Query nodes", || {
                self.client
                    .db
                    .query()
                    .table_name(&self.client.table)
                    .consistent_read(true)
                    .key_condition_expression("pk = :nodes")
                    .expression_attribute_values(":nodes", s(NODES))
                    .set_exclusive_start_key(start.clone())
                    .return_consumed_capacity(ReturnConsumedCapacity::Total)
                    .send()
            })
            .await?;
        self.charge_read(reply.consumed_capacity());
        Ok((reply.items().iter().filter_map(parse).collect(), reply.last_evaluated_key))
    }

    /// Writes a node's record, once. A node that marks another one dead leaves the rest of that node's item
    /// unchanged. A terminal record is never overwritten: in a table that went backwards, its revision may be one
    /// under which the node itself wrote before.
    pub async fn write_node(&self, expected: Revision, record: NodeRecord) -> NodeOutcome {
        let mut bytes = Vec::with_capacity(256);
        record.encode_into(&mut bytes);
        let (me, head) = {
            let state = self.state();
            (state.me, state.head)
        };
        let revision = Revision(expected.0 + 1);
        let mut set = "SET #rev = :rev, #record = :record, #state = :state, #url = :url".to_owned();
        let mut update = self
            .client
            .db
            .update_item()
            .table_name(&self.client.table)
            .key("pk", s(NODES))
            .key("sk", s(record.incarnation.to_string()))
            .expression_attribute_names("#rev", "rev")
            .expression_attribute_names("#record", "record")
            .expression_attribute_names("#state", "state")
            .expression_attribute_names("#url", "url")
            .expression_attribute_values(":rev", n(revision.0))
            .expression_attribute_values(":record", b(bytes))
            .expression_attribute_values(":state", s(record.state.as_str()))
            .expression_attribute_values(":url", s(&*record.url))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        if record.state == NodeState::Alive {
            set.push_str(", #session = :session, #head = :head");
            update = update
                .expression_attribute_names("#session", "session")
                .expression_attribute_names("#head", "head")
                .expression_attribute_values(":session", s(me.to_string()))
                .expression_attribute_values(":head", n(head));
        }
        update = update.update_expression(set);
        update = if expected == Revision::ABSENT {
            update.condition_expression("attribute_not_exists(pk)")
        } else {
            update
                .condition_expression("#rev = :expected AND #state = :alive")
                .expression_attribute_values(":expected", n(expected.0))
                .expression_attribute_values(":alive", s(NodeState::Alive.as_str()))
        };
        self.metrics.node_writes.increment(1);
        match self.send("UpdateItem node", update.send()).await {
            Ok(reply) => {
                self.charge_write(reply.consumed_capacity());
                NodeOutcome::Committed(revision)
            }
            Err(failure) => match failure.kind {
                FailureKind::Condition => NodeOutcome::Conflict,
                FailureKind::Unknown => NodeOutcome::Unknown(StoreError::Unavailable(failure.why)),
                _ => NodeOutcome::Refused(StoreError::Unavailable(failure.why)),
            },
        }
    }

    pub async fn forget_node(
        &self,
        incarnation: Nonce,
        expected: Revision,
    ) -> Result<(), StoreError> {
        let delete = self.client.db.delete_item().table_name(&self.client.table);
        let delete = delete
            .key("pk", s(NODES))
            .key("sk", s(incarnation.to_string()))
            .condition_expression("attribute_not_exists(pk) OR #rev = :expected")
            .expression_attribute_names("#rev", "rev")
            .expression_attribute_values(":expected", n(expected.0))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        self.metrics.node_writes.increment(1);
        match self.send("DeleteItem node", delete.send()).await {
            Ok(reply) => {
                self.charge_write(reply.consumed_capacity());
                Ok(())
            }
            Err(failure) if failure.kind == FailureKind::Condition => {
                Err(StoreError::Unavailable("the node's record has changed meanwhile".to_owned()))
            }
            Err(failure) => Err(StoreError::Unavailable(failure.why)),
        }
    }
}
