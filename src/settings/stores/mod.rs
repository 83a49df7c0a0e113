//! `[store]`: where leases are stored, and what each kind of store needs.

mod bounds;
mod dynamodb;
mod embedded;
mod nats;

pub use dynamodb::DynamoDb;
pub use embedded::Embedded;
pub use nats::Nats;

use super::{table::section, value::written_as_text};

section! {
    /// The section `[store]`: which kind of store keeps the leases.
    pub struct Store {
        /// Where leases are stored. "embedded": files of this process, for one coordinator. "nats": a NATS JetStream
        /// bucket, and "dynamodb": a DynamoDB table, each for any number of coordinators.
        kind: StoreKind = StoreKind::Embedded;
    } with {
        /// Settings of the embedded store.
        embedded: Embedded,
        /// Settings of the store on NATS JetStream.
        nats: Nats,
        /// Settings of the store on DynamoDB.
        dynamodb: DynamoDb,
    }
}

impl Store {
    /// Whether the settings of a section, such as `store.nats`, are in use.
    pub(super) fn uses(&self, section: &str) -> bool {
        section.strip_prefix("store.").is_none_or(|kind| kind == self.kind.as_str())
    }
}

/// The kind of store that keeps the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Files in a local directory, for one coordinator.
    Embedded,
    /// A key-value bucket of NATS JetStream, for several coordinators.
    Nats,
    /// A table of DynamoDB, for several coordinators.
    DynamoDb,
}

impl StoreKind {
    /// Every kind, also those that this build lacks.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Nats, Self::DynamoDb];

    /// The kind's name in settings and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Nats => "nats",
            Self::DynamoDb => "dynamodb",
        }
    }

    /// Whether several coordinators can share a store of this kind.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self != Self::Embedded
    }
}

written_as_text! {
    StoreKind: "\"embedded\", \"nats\" or \"dynamodb\"",
        |text| Self::ALL.into_iter().find(|kind| kind.as_str() == text),
        |kind| kind.as_str().to_owned();
}
