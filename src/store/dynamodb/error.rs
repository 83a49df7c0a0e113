//! Why a table is not opened.

use crate::lease::LevelError;

#[derive(Debug, thiserror::Error)]
pub enum DynamoOpenError {
    /// The table is not there.
    #[error(
        "there is no table {table:?}; make it (`docs/dynamodb.md` says how), or set \
         store.dynamodb.create_table = true"
    )]
    NoTable { table: String },
    /// The table has another key schema.
    #[error(
        "table {table:?} has the key {found}; it needs a partition key `pk` (S) and a sort key \
         `sk` (S): name another table"
    )]
    KeySchema { table: String, found: String },
    /// The table is a global table whose regions agree only some time after a write.
    #[error(
        "table {table:?} has replicas in {regions} that are only eventually consistent: two \
         regions could grant the same key. Use a table of one region, or one with multi-region \
         strong consistency"
    )]
    EventuallyConsistent { table: String, regions: String },
    #[error("no AWS region is set: set store.dynamodb.region, or AWS_REGION")]
    NoRegion,
    /// The store's own record cannot be read.
    #[error(
        "the item `meta` of table {table:?} is damaged ({why}); restore it, or name another table"
    )]
    Damaged {
        table: String,
        /// What is wrong with the record.
        why: String,
    },
    /// Another version of the program serves the table, or served it.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// A restore into the table was begun and has not ended.
    #[error(
        "a restore into table {table:?} was cut off, or is under way: the table is incomplete. Run \
         the same `tenure restore --file FILE --raise-epoch` again, or delete the table"
    )]
    Restoring { table: String },
    /// The table is unreachable, forbidden or throttled.
    #[error("table {table:?}: {why}")]
    Unavailable {
        table: String,
        /// The request and its failure.
        why: String,
    },
    /// The store's thread could not be started.
    #[error("the store's thread did not start: {0}")]
    Thread(#[from] std::io::Error),
}
