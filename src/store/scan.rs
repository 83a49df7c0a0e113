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
