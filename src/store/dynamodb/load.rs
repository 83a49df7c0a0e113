//! Reads the whole table, when the store is opened or thaws.
//!
//! First the log's end is read, then every item, then the entries that were logged meanwhile. The log's end
//! shows for most items whether their changes are in the log. For items that were written a moment ago, the
//! log is read back to the entry that their writers had read last. For items of sessions that the log does
//! not name, it is also read back, at most [`MAX_BACK`] entries.

use std::ops::ControlFlow;

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;

use super::{
    layout::{Item, LEASE, LeaseItem, NODES, number, s, text},
    log::{PAGE, ReadEntry, lost_until},
    position::end_of,
    read::{Start, pages},
    shared::DynamoShared,
    state::DynamoState,
};
use crate::lease::StoreError;

/// If the whole log was deleted, it continues this far above the highest number that any node had seen. That is
/// more entries than a node's last record may have missed.
pub(super) const SLACK: u64 = 1000;

/// How many entries before the last are searched, at most, for changes of recently written items. Older changes
/// are those of dead nodes.
const MAX_BACK: u64 = 1000;

/// One page of a scan of the table.
pub(super) struct Page {
    pub items: Vec<LeaseItem>,
    /// The highest end of the log that a node on this page had seen.
    pub node_head: u64,
}

impl DynamoShared {
    /// Reads the whole table, page by page.
    pub async fn scan(&self, take: impl FnMut(Page)) -> Result<(), StoreError> {
        pages(|start| self.scan_page(start), take).await
    }

    /// Reads a page of the table: the leases, and the ends of the log that nodes had seen.
    async fn scan_page(&self, start: Option<Start>) -> Result<(Page, Option<Start>), StoreError> {
        let reply = self
            .send_read("Scan", || {
                self.client
                    .db
                    .scan()
                    .table_name(&self.client.table)
                    .consistent_read(true)
                    .filter_expression("sk = :lease OR pk = :nodes")
                    .expression_attribute_values(":lease", s(LEASE))
                    .expression_attribute_values(":nodes", s(NODES))
                    .set_exclusive_start_key(start.clone())
                    .return_consumed_capacity(ReturnConsumedCapacity::Total)
                    .send()
            })
            .await?;
        self.charge_read(reply.consumed_capacity());
        let of_node = |item: &&Item| text(item, "pk") == Some(NODES);
        let nodes = reply.items().iter().filter(of_node);
        let node_head = nodes.filter_map(|item| number(item, "head")).max().unwrap_or(0);
        let leases = reply.items().iter().filter(|item| text(item, "sk") == Some(LEASE));
        let items = leases.filter_map(|item| LeaseItem::parse(item, None)).collect();
        Ok((Page { items, node_head }, reply.last_evaluated_key))
    }

    /// Reads everything. What this session still had to log remains to be logged.
    pub async fn load(&self) -> Result<(), StoreError> {
        let last = self.read_entries(0, false, 1).await?.pop();
        let first = self.read_entries(0, true, 1).await?.pop();
        let mut state = DynamoState::new(self.me(), 0);
        let start = last.as_ref().map_or(0, |read| read.number);
        match last.map(|ReadEntry { entry, .. }| entry) {
            Some(Ok(entry)) => drop(state.apply(start, &entry)),
            Some(Err(_)) => drop(state.skip(start)),
            None => {}
        }
        let mut node_head = 0;
        let mut oldest = start;
        let oldest_entry = first.as_ref().map_or(start, |read| read.number);
        let mut unsure = Vec::new();
        // What this session had to log was written into the store of before, and is dropped with it.
        let thaws = self.recent_failures().frozen.is_some();
        let me = self.me();
        self.scan(|page| {
            node_head = node_head.max(page.node_head);
            for item in page.items {
                let mut behind = state.is_behind(&item.trail);
                if !behind && state.is_unsure(&item.trail, oldest_entry, MAX_BACK) {
                    behind = true;
                    unsure.push(item.key.clone());
                } else if behind && thaws && item.trail.writer == me {
                    unsure.push(item.key.clone());
                }
                if behind {
                    oldest = oldest.min(item.trail.head);
                }
                state.found_at_start(item, behind);
            }
        })
        .await?;
        let whole = self.read_back(&mut state, oldest).await?;
        if state.head == 0 && node_head > 0 {
            // The whole log was deleted while no node was alive. (An entry that another node has begun meanwhile
            // was read above.)
            state.head = node_head + SLACK;
        }
        let head = state.head;
        state.latest = end_of(head);
        state.earliest = end_of(first.map_or(head, |read| read.number.saturating_sub(1)));
        state.ring.reset(head);
        // Nobody else would log what the log lacks of sessions that it does not name.
        for key in unsure {
            let Some(known) = state.keys.get_mut(&key) else { continue };
            let Some(last) = known.unlogged.last() else { continue };
            if whole {
                let unlogged = known.unlogged.clone();
                state.outbox.repair(&key, unlogged);
            } else {
                // The changes may be in an entry that cannot be read. That entry was reported as a gap.
                known.logged = last.order();
                known.unlogged.clear();
            }
        }
        self.install(state);
        Ok(())
    }

    /// Reads the entries after `oldest`, for changes of items that were found, and the entries that were logged
    /// while the table was read. Returns whether all of them can be read.
    async fn read_back(&self, state: &mut DynamoState, oldest: u64) -> Result<bool, StoreError> {
        let start = state.head;
        let mut whole = true;
        let from = (oldest + 1).max(start.saturating_sub(MAX_BACK));
        self.walk(from, PAGE, |read| {
            whole &= read.entry.is_ok();
            match &read.entry {
                Ok(entry) if read.number <= start => state.note_logged(entry),
                Ok(entry) => drop(state.apply(read.number, entry)),
                Err(_) if read.number <= start => {}
                Err(_) => drop(state.skip(read.number)),
            }
            ControlFlow::<()>::Continue(())
        })
        .await?;
        Ok(whole)
    }

    fn install(&self, mut fresh: DynamoState) {
        let mut state = self.state();
        fresh.high = fresh.high.max(state.high);
        let repairs = std::mem::replace(&mut fresh.outbox, std::mem::take(&mut state.outbox));
        fresh.outbox.wait_also(repairs);
        fresh.outbox.last_entry_ms = self.clock.wall_ms();
        fresh.take_over(&mut state);
        *state = fresh;
    }

    /// Reads everything again. Listeners are told that they may have missed changes.
    pub async fn reload(&self) -> Result<(), StoreError> {
        self.load().await?;
        let mut state = self.state();
        state.outbox.registered = true;
        let head = state.head;
        self.publish(lost_until(head));
        drop(state);
        self.to_log.notify_one();
        Ok(())
    }
}
