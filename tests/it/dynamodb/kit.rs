//! What the tests share: stores on a table, records, and looking at the table past the store.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
    types::AttributeValue,
};
use aws_smithy_http_client::Builder;
use tenure::{
    clock::{Entropy, SystemClock, SystemEntropy},
    lease::{Key, NodeRecord, NodeState, Nonce, Revision},
    store::{
        Committed, FeedBatch, Fresh, History, LeaseStore, NodeOutcome, Position, SharedStore,
        Witness, Write, WriteOutcome,
        dynamodb::{DynamoOpenError, DynamoStore, Options},
    },
    telemetry::Metrics,
};

pub use crate::support::{
    clock::{PATIENCE, eventually},
    records::{grant, granted, key},
};

pub const TABLE: &str = "tenure";

pub fn options(url: &str) -> Options {
    Options {
        endpoint: Some(url.to_owned()),
        create_table: true,
        poll_interval: Duration::from_millis(50),
        ..Options::new(TABLE)
    }
}

pub async fn open_with(
    options: Options,
    witness: Option<Witness>,
) -> Result<Arc<DynamoStore>, DynamoOpenError> {
    let fresh =
        Fresh { identity: SystemEntropy::new().nonce(), secret: [9; 32], created_ms: 5_000 };
    let clock = Arc::new(SystemClock::new());
    DynamoStore::open(options, fresh, witness, clock, Arc::new(Metrics::register("dynamodb"))).await
}

pub async fn open(url: &str) -> Arc<DynamoStore> {
    open_with(options(url), None).await.unwrap_or_else(|e| panic!("{e}"))
}

/// A client past the store.
pub fn client(url: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(url)
        .http_client(Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// Deletes an item by hand.
pub async fn delete(url: &str, pk: &str, sk: &str) {
    let request = client(url).delete_item().table_name(TABLE);
    request.key("pk", text(pk)).key("sk", text(sk)).send().await.unwrap();
}

pub async fn commit(store: &DynamoStore, write: Write) -> Revision {
    match store.compare_and_set(write).await {
        WriteOutcome::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// A node's record, alive or not.
pub fn node(incarnation: u128, state: NodeState) -> NodeRecord {
    NodeRecord {
        state,
        unseen: false,
        place: 0,
        common: tenure::lease::Common::default(),
        ..NodeRecord::unseen(Nonce(incarnation), SystemEntropy::new().nonce())
    }
}

pub async fn write_node(store: &DynamoStore, expected: Revision, record: NodeRecord) -> Revision {
    match store.write_node(expected, record).await {
        NodeOutcome::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// What a subscriber heard, and a check that no key's changes had a hole or came out of order.
#[derive(Default)]
pub struct Heard {
    pub seqs: BTreeMap<Key, Vec<u64>>,
    pub tokens: BTreeMap<Key, Vec<u64>>,
    pub positions: Vec<Position>,
    pub gaps: usize,
}

impl Heard {
    pub fn hear(&mut self, news: &FeedBatch) {
        match news {
            FeedBatch::Gap { .. } => self.gaps += 1,
            FeedBatch::Changes(changes) => changes.iter().for_each(|one| self.hear_one(one)),
        }
    }

    pub fn hear_one(&mut self, one: &Committed) {
        if let Some(last) = self.positions.last() {
            assert!(*last < one.position, "positions rise: {last:?}, {:?}", one.position);
        }
        self.positions.push(one.position);
        self.seqs.entry(one.key.clone()).or_default().push(one.change.seq);
        self.tokens.entry(one.key.clone()).or_default().push(one.change.token.0);
    }

    pub fn total(&self) -> usize {
        self.positions.len()
    }

    /// Every key's changes are 1, 2, 3… and its tokens rise.
    pub fn check(&self) {
        assert_eq!(self.gaps, 0, "no gap");
        for (key, seqs) in &self.seqs {
            let all: Vec<u64> = (1..=seqs.len() as u64).collect();
            assert_eq!(seqs, &all, "the changes of {key}");
        }
        for (key, tokens) in &self.tokens {
            assert!(tokens.is_sorted_by(|a, b| a < b), "the tokens of {key} rise: {tokens:?}");
        }
    }
}

/// Listens until `total` changes came.
pub async fn listen(feed: &mut tenure::store::Feed, total: usize) -> Heard {
    let mut heard = Heard::default();
    listen_on(feed, total, &mut heard).await;
    heard
}

pub async fn listen_on(feed: &mut tenure::store::Feed, total: usize, heard: &mut Heard) {
    while heard.total() < total {
        let news = tokio::time::timeout(PATIENCE, feed.recv()).await;
        let news = news.unwrap_or_else(|_| panic!("{} of {total} changes came", heard.total()));
        heard.hear(&news.expect("the feed goes on"));
    }
}

/// Reads the history from a position to its end.
pub async fn all_history(store: &DynamoStore, mut after: Position, page: usize) -> Heard {
    let mut heard = Heard::default();
    loop {
        match store.history(after, page).await.unwrap() {
            History::Changes(changes) if changes.is_empty() => return heard,
            History::Changes(changes) => {
                assert!(changes.len() <= page);
                changes.iter().for_each(|one| heard.hear_one(one));
                after = changes.last().unwrap().position;
            }
            History::Gap { resume } => {
                assert!(resume > after, "a gap leads on");
                heard.gaps += 1;
                after = resume;
            }
        }
    }
}
