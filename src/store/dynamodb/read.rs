//! Reads of leases: one key, or a range of keys.

use std::{collections::HashMap, ops::Bound};

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, ReturnConsumedCapacity};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    layout::{Item, LEASE, LeaseItem, lease_pk, s},
    shared::DynamoShared,
};
use crate::{
    lease::{Key, StoreError},
    store::{Found, Range},
};

/// How many items one request may read.
const BATCH: usize = 100;
/// How many batches of known keys are read at a time.
const BATCHES_AT_ONCE: usize = 8;
/// How many times what a batch left unread is requested again, before the read fails because the table throttles.
const MAX_BATCHES: u32 = 10;

fn primary(key: &Key) -> HashMap<String, AttributeValue> {
    HashMap::from([("pk".to_owned(), s(lease_pk(key))), ("sk".to_owned(), s(LEASE))])
}

/// Where the next page of a query or scan starts.
pub(super) type Start = HashMap<String, AttributeValue>;

pub(super) async fn pages<T, F>(
    mut read: impl FnMut(Option<Start>) -> F,
    mut take: impl FnMut(T),
) -> Result<(), StoreError>
where
    F: Future<Output = Result<(T, Option<Start>), StoreError>>,
{
    let mut next = None;
    loop {
        let (page, start) = read(next).await?;
        take(page);
        next = start;
        if next.is_none() {
            return Ok(());
        }
    }
}

impl DynamoShared {
    /// Reads one lease, strongly consistent.
    pub async fn read_lease(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        let known = self.known(key);
        let reply = self
            .send_read("GetItem lease", || {
                let get = self.client.db.get_item().table_name(&self.client.table);
                let get = get.set_key(Some(primary(key))).consistent_read(true);
                get.return_consumed_capacity(ReturnConsumedCapacity::Total).send()
            })
            .await?;
        self.charge_read(reply.consumed_capacity());
        let item = reply.item().and_then(|item| LeaseItem::parse(item, Some(key)));
        Ok(self.observe(key, item, known))
    }

    /// Reads several leases, strongly consistent, in the order of their keys.
    pub async fn read_leases(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, StoreError> {
        let mut sorted: Vec<Key> = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let with_revision = |key: Key| {
            let known = self.known(&key);
            (key, known)
        };
        let known = sorted.into_iter().map(with_revision).collect();
        let found: HashMap<Key, Found> = self.read_known(known).await?.into_iter().collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// The existing items of some keys. The keys are sorted and come with their last known revisions.
    async fn read_known(&self, known: Vec<(Key, u64)>) -> Result<Vec<(Key, Found)>, StoreError> {
        let batches: Vec<_> = known.chunks(BATCH).map(<[_]>::to_vec).collect();
        let batches = stream::iter(batches)
            .map(|batch| async move { self.read_batch(&batch).await })
            .buffered(BATCHES_AT_ONCE)
            .try_collect::<Vec<_>>();
        let mut items: HashMap<Key, LeaseItem> = batches.await?.into_iter().flatten().collect();
        let found = |(key, known): (Key, u64)| {
            let found = self.observe(&key, items.remove(&key), known)?;
            Some((key, found))
        };
        Ok(known.into_iter().filter_map(found).collect())
    }

    fn known(&self, key: &Key) -> u64 {
        self.state().keys.get(key).map_or(0, |state| state.revision)
    }

    /// Reads a range of leases: the known keys, with their current records.
    pub async fn scan_leases(&self, range: Range) -> Result<Vec<(Key, Found)>, StoreError> {
        let mut found: Vec<(Key, Found)> = Vec::new();
        let mut after = range.after.clone();
        while found.len() < range.limit {
            // One batch after another, so that reading all leases leaves capacity for other requests.
            let wanted = BATCH.min(range.limit - found.len());
            let keys = self.keys_of(&range.prefix, after.as_deref(), wanted);
            let Some(last) = keys.last() else { break };
            after = Some(last.0.as_str().to_owned());
            found.extend(self.read_known(keys).await?);
        }
        Ok(found)
    }

    /// The known keys of a range, with their last known revisions.
    fn keys_of(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<(Key, u64)> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let state = self.state();
        let range = state.keys.range::<str, _>((from, Bound::Unbounded));
        let range = range.take_while(|(key, _)| key.as_str().starts_with(prefix));
        range.take(limit).map(|(key, state)| (key.clone(), state.revision)).collect()
    }

    async fn read_batch(&self, keys: &[(Key, u64)]) -> Result<HashMap<Key, LeaseItem>, StoreError> {
        let bad = |e: aws_sdk_dynamodb::error::BuildError| StoreError::Unavailable(e.to_string());
        let all = keys.iter().map(|(key, _)| primary(key)).collect();
        let all = KeysAndAttributes::builder().set_keys(Some(all)).consistent_read(true);
        let mut left = Some(all.build().map_err(bad)?);
        let mut found = HashMap::new();
        for _ in 0..MAX_BATCHES {
            let Some(wanted) = left.take() else { return Ok(found) };
            let reply = self
                .send_read("BatchGetItem leases", || {
                    let get = self.client.db.batch_get_item();
                    let get = get.request_items(&self.client.table, wanted.clone());
                    get.return_consumed_capacity(ReturnConsumedCapacity::Total).send()
                })
                .await?;
            reply.consumed_capacity().iter().for_each(|one| self.charge_read(Some(one)));
            let items = reply.responses().and_then(|all| all.get(&self.client.table));
            for item in items.into_iter().flatten() {
                if let Some(lease) = parse_of(item, keys) {
                    found.insert(lease.key.clone(), lease);
                }
            }
            left = reply.unprocessed_keys().and_then(|all| all.get(&self.client.table)).cloned();
            if left.is_some() {
                let pause = self.jitter(std::time::Duration::from_millis(200));
                tokio::time::sleep(pause).await;
            }
        }
        match left {
            None => Ok(found),
            Some(_) => Err(StoreError::Unavailable("the table throttles reads".to_owned())),
        }
    }
}

/// Parses the item of one of the requested keys.
fn parse_of(item: &Item, keys: &[(Key, u64)]) -> Option<LeaseItem> {
    let pk = super::layout::text(item, "pk")?.strip_prefix(super::layout::LEASE_PREFIX)?;
    let at = keys.binary_search_by(|(key, _)| key.as_str().cmp(pk)).ok()?;
    LeaseItem::parse(item, Some(&keys[at].0))
}
