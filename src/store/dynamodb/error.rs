//! Why a table is not opened.

/// Why [`DynamoStore::open`](super::DynamoStore::open) refused.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The table is not there.
    #[error(
        "there is no table {table:?}; make it (`docs/dynamodb.md` says how), or set \
         store.dynamodb.create_table = true"
    )]
    NoTable {
        /// Its name.
        table: String,
    },
    /// The table has other keys.
    #[error(
        "table {table:?} has the key {found}; a partition key `pk` (S) and a sort key `sk` (S) are \
         needed: name another table"
    )]
    KeySchema {
        /// Its name.
        table: String,
        /// The key as it is.
        found: String,
    },
    /// A global table whose regions agree only some time after a write.
    #[error(
        "table {table:?} has replicas in {regions} that agree only after a while: two regions would \
         grant the same key. Use a table of one region, or one with multi-region strong consistency"
    )]
    EventuallyConsistent {
        /// Its name.
        table: String,
        /// The other regions.
        regions: String,
    },
    /// No region is known.
    #[error("no AWS region is set: set store.dynamodb.region, or AWS_REGION")]
    NoRegion,
    /// The store's own record cannot be read.
    #[error(
        "the item `meta` of table {table:?} is damaged ({why}); restore it, or name another table"
    )]
    Damaged {
        /// The table.
        table: String,
        /// What is wrong with it.
        why: String,
    },
    /// A restore into it was begun and has not ended.
    #[error(
        "a restore into table {table:?} was cut off, or is under way: it does not hold everything. Run the same \
         `tenure restore --file FILE --raise-epoch` again, or delete the table"
    )]
    Restoring {
        /// Its name.
        table: String,
    },
    /// Out of reach, not allowed, throttled.
    #[error("table {table:?}: {why}")]
    Unavailable {
        /// The table.
        table: String,
        /// What was asked, and what came back.
        why: String,
    },
    /// No thread could be started.
    #[error("the store's thread did not start: {0}")]
    Thread(#[from] std::io::Error),
}
