//! Reads every record of the store.

use crate::{
    lease::{Key, Record, StoreError},
    store::{LeaseStore, Range},
};

/// How many keys are read at a time.
const PAGE: usize = 1000;

/// Shows every key with its record to the caller, a page at a time. `None`: the record cannot be interpreted.
///
/// # Errors
/// Errors of the store.
pub async fn each_record(
    store: &dyn LeaseStore,
    mut each: impl FnMut(&Key, Option<&Record>),
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let range = Range { prefix: String::new(), after, limit: PAGE };
        let page = store.scan(range).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(last.as_str().to_owned());
        for (key, found) in &page {
            each(key, found.record.as_deref().ok());
        }
        tokio::task::yield_now().await;
    }
}
