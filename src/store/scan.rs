//! Reading many keys of a store, a page at a time.
//!
//! Guarantees: keys come in byte order. A key that has a record from the first page to the last is on one of them.
//!
//! Does not guarantee: that all pages are of one moment. A key that is written meanwhile may be missing.

use super::{
    contract::LeaseStore,
    found::{Found, Range},
};
use crate::lease::{Key, StoreError};

/// The keys of a store that start with a prefix, with their records.
pub struct Pages<'a> {
    store: &'a dyn LeaseStore,
    range: Range,
}

impl<'a> Pages<'a> {
    /// All keys that start with `prefix`, at most `limit` of them on a page.
    #[must_use]
    pub fn of(store: &'a dyn LeaseStore, prefix: &str, limit: usize) -> Self {
        Self { store, range: Range { prefix: prefix.to_owned(), after: None, limit } }
    }

    /// Only those that sort after this key.
    #[must_use]
    pub fn after(mut self, key: Option<String>) -> Self {
        self.range.after = key;
        self
    }

    /// The next page, which has at least one key; `None` after the last one. Other tasks run between two pages.
    ///
    /// # Errors
    /// [`StoreError`]. A later call reads the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<(Key, Found)>>, StoreError> {
        if self.range.after.is_some() {
            tokio::task::yield_now().await;
        }
        let page = self.store.scan(self.range.clone()).await?;
        let Some((last, _)) = page.last() else { return Ok(None) };
        self.range.after = Some(last.as_str().to_owned());
        Ok(Some(page))
    }

    /// The last key that was read. The keys after it were not.
    #[must_use]
    pub fn into_position(self) -> Option<String> {
        self.range.after
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::ready,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use super::*;
    use crate::{
        lease::{CodecError, Revision},
        store::{Feed, Health, History, Meta, Position, StoreFuture, Write, WriteOutcome},
    };

    /// A store that can only be scanned.
    #[derive(Default)]
    struct Scanned {
        keys: Vec<Key>,
        fails: AtomicBool,
    }

    impl Scanned {
        fn of(names: &[&str]) -> Self {
            let keys = names.iter().map(|name| Key::new(name).unwrap()).collect();
            Self { keys, ..Self::default() }
        }
    }

    impl LeaseStore for Scanned {
        fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
            if self.fails.load(Ordering::Relaxed) {
                return Box::pin(ready(Err(StoreError::Unavailable("no answer".to_owned()))));
            }
            let follows = |key: &str| range.after.as_deref().is_none_or(|after| key > after);
            let fits =
                |key: &&Key| key.as_str().starts_with(&range.prefix) && follows(key.as_str());
            let found = Found { revision: Revision(1), record: Err(CodecError::Truncated) };
            let page = self.keys.iter().filter(fits).take(range.limit);
            let page = page.map(|key| (key.clone(), found.clone())).collect();
            Box::pin(ready(Ok(page)))
        }

        fn meta(&self) -> Arc<Meta> {
            unimplemented!()
        }

        fn read(&self, _: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
            unimplemented!()
        }

        fn compare_and_set(&self, _: Write) -> StoreFuture<WriteOutcome> {
            unimplemented!()
        }

        fn forget(&self, _: &Key, _: Revision) -> StoreFuture<Result<bool, StoreError>> {
            unimplemented!()
        }

        fn feed(&self) -> Feed {
            unimplemented!()
        }

        fn history(&self, _: Position, _: usize) -> StoreFuture<Result<History, StoreError>> {
            unimplemented!()
        }

        fn latest(&self) -> Position {
            unimplemented!()
        }

        fn earliest(&self) -> Position {
            unimplemented!()
        }

        fn health(&self) -> Health {
            unimplemented!()
        }
    }

    /// The names on the pages that are left.
    async fn rest(pages: &mut Pages<'_>) -> Vec<Vec<String>> {
        let mut read = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            read.push(page.iter().map(|(key, _)| key.as_str().to_owned()).collect());
        }
        read
    }

    #[tokio::test]
    async fn every_key_is_on_one_page() {
        let store = Scanned::of(&["a", "b", "c", "d", "e"]);
        let mut pages = Pages::of(&store, "", 2);
        assert_eq!(rest(&mut pages).await, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        assert!(pages.next().await.unwrap().is_none(), "the end stays the end");
        assert_eq!(rest(&mut Pages::of(&store, "", 5)).await.len(), 1);
        assert!(rest(&mut Pages::of(&Scanned::default(), "", 5)).await.is_empty());
    }

    #[tokio::test]
    async fn a_prefix_and_a_position_leave_keys_out() {
        let store = Scanned::of(&["a", "b/1", "b/2", "b/3", "c"]);
        let mut pages = Pages::of(&store, "b/", 1).after(Some("b/1".to_owned()));
        assert!(pages.next().await.unwrap().is_some());
        assert_eq!(rest(&mut pages).await, [vec!["b/3"]]);
        assert_eq!(pages.into_position().as_deref(), Some("b/3"));
        assert_eq!(Pages::of(&store, "b/", 1).into_position(), None);
    }

    #[tokio::test]
    async fn a_failure_skips_nothing() {
        let store = Scanned::of(&["a", "b", "c"]);
        let mut pages = Pages::of(&store, "", 1);
        assert!(pages.next().await.unwrap().is_some());
        store.fails.store(true, Ordering::Relaxed);
        assert!(pages.next().await.is_err());
        store.fails.store(false, Ordering::Relaxed);
        assert_eq!(rest(&mut pages).await, [vec!["b"], vec!["c"]]);
    }
}
