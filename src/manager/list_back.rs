//! The page before a key.

use super::{
    CallError, Manager,
    inspect::{Filter, Listing, SCAN_MAX, may_match},
    looks::Looks,
};
use crate::{
    lease::Span,
    store::{StoreError, end_of_prefix},
};

/// How many keys are read at a time: as many as are asked for, within these bounds.
const FEW: usize = 16;
const MANY: usize = 256;

impl Manager {
    /// The page of leases before a key: the last ones that the filter lets pass, in byte order. It may have fewer leases
    /// than the filter's limit and still have a `previous`. `looks` counts the keys that the search looks at.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn list_before(
        &self,
        filter: &Filter,
        before: &str,
        looks: Looks<'_>,
    ) -> Result<Listing, CallError> {
        let store = &self.coordinator.store;
        let mut ranges =
            self.ranges(filter.pool.as_deref(), &filter.prefix, filter.within.as_ref());
        let mut listing = Listing::default();
        let (page, mut looked_at) = (filter.limit.clamp(FEW, MANY), 0);
        // The last range comes first.
        'all: while let Some(span) = ranges.pop() {
            if span.start() >= before {
                continue;
            }
            let (prefix, end) = match span {
                Span::Under(prefix) => (prefix.clone(), end_of_prefix(&prefix)),
                // No key is between one and the same with a zero byte.
                Span::One(key) => (key.clone(), Some(format!("{key}\0"))),
            };
            let mut until = end.map_or_else(|| before.to_owned(), |end| end.min(before.to_owned()));
            loop {
                let read = async {
                    let keys = store.keys_before(&prefix, Some(until.as_str()), page);
                    let keys = keys.unwrap_or_default();
                    looks(keys.len());
                    let found = store.read_many(&keys).await?;
                    Ok::<_, StoreError>((keys, found))
                };
                let (keys, found) = self.search_turns.page(read).await?;
                let Some(first) = keys.last() else { break };
                until = first.as_str().to_owned();
                looked_at += keys.len();
                let is_last = keys.len() < page;
                for (key, found) in keys.into_iter().zip(found) {
                    let Some(found) = found else { continue };
                    let elsewhere = |pool: &String| !self.is_in_pool(key.as_str(), pool);
                    let within = filter.within.as_ref();
                    let is_elsewhere = filter.pool.as_ref().is_some_and(elsewhere)
                        || within.is_some_and(|within| !within.allows(key.as_str()));
                    if key.is_internal() || is_elsewhere || !may_match(filter, &found) {
                        continue;
                    }
                    let view = self.view_found(&key, found).await?;
                    if filter.fits(&view) {
                        listing.leases.push((key, view));
                        if listing.leases.len() == filter.limit {
                            listing.previous =
                                listing.leases.last().map(|(key, _)| key.as_str().to_owned());
                            break 'all;
                        }
                    }
                }
                if looked_at >= SCAN_MAX {
                    listing.previous = Some(until);
                    break 'all;
                }
                if is_last {
                    break;
                }
            }
        }
        listing.leases.reverse();
        listing.next = listing.leases.last().map(|(key, _)| key.as_str().to_owned());
        Ok(listing)
    }
}
