//! The store on DynamoDB as a subject: an account of its own for each test.

use std::{collections::HashMap, sync::Arc, time::Duration};

use dynoxide::{
    AttributeValue, Database,
    actions::{
        delete_item::DeleteItemRequest, get_item::GetItemRequest, put_item::PutItemRequest,
        query::QueryRequest,
    },
};
use tenure::{
    clock::SystemClock,
    lease::{Key, Nonce, Revision},
    store::{
        Fresh, LeaseStore, Witness,
        dynamodb::{DynamoStore, Options},
    },
    telemetry::Metrics,
};

use crate::stores::{
    conformance,
    lab::{commit, eventually, grant, key},
    subject::{Damage, Subject},
};

use crate::support::{
    dynamo_endpoint::Endpoint,
    proxy::{Proxy, Way},
};

const TABLE: &str = "suite";
/// The version of a record that this program does not know.
const NEWER: u8 = 9;

pub struct Dynamo {
    _endpoint: Endpoint,
    /// What it keeps: a way to it behind the store's back.
    database: Database,
    way: Proxy,
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// The item of a lease.
fn place(key: &Key) -> HashMap<String, AttributeValue> {
    HashMap::from([("pk".into(), text(&format!("l#{key}"))), ("sk".into(), text("l"))])
}

impl Dynamo {
    /// Removes an item behind the store's back.
    fn remove(&self, key: HashMap<String, AttributeValue>) {
        let table_name = TABLE.to_owned();
        let request = DeleteItemRequest { table_name, key, ..DeleteItemRequest::default() };
        self.database.delete_item(request).expect("it is removed");
    }

    /// The keys of the log's entries, oldest first.
    fn log(&self) -> Vec<HashMap<String, AttributeValue>> {
        let request = QueryRequest {
            table_name: TABLE.to_owned(),
            key_condition_expression: Some("pk = :log".to_owned()),
            expression_attribute_values: Some(HashMap::from([(":log".into(), text("log"))])),
            scan_index_forward: true,
            ..QueryRequest::default()
        };
        let found = self.database.query(request).expect("the log");
        let key = |item: HashMap<String, AttributeValue>| {
            item.into_iter().filter(|(name, _)| name == "pk" || name == "sk").collect()
        };
        found.items.unwrap_or_default().into_iter().map(key).collect()
    }
}

impl Subject for Dynamo {
    async fn start() -> Self {
        let database = Database::memory().expect("a database");
        let endpoint = Endpoint::start_with(database.clone());
        let way = Proxy::to(endpoint.addr()).await;
        Self { _endpoint: endpoint, database, way }
    }

    async fn open_with(&self, witness: Option<Witness>) -> Arc<dyn LeaseStore> {
        let mut options = Options::new(TABLE);
        options.endpoint = Some(format!("http://{}", self.way.addr));
        options.region = Some("eu-central-1".to_owned());
        options.create_table = true;
        options.poll_interval = Duration::from_millis(50);
        let fresh = Fresh { identity: Nonce(3), secret: [9; 32], created_ms: 5_000 };
        let metrics = Arc::new(Metrics::register("dynamodb"));
        let store =
            DynamoStore::open(options, fresh, witness, Arc::new(SystemClock::new()), metrics).await;
        store.unwrap_or_else(|why| panic!("{why}"))
    }

    fn several(&self) -> bool {
        true
    }

    async fn delete_by_hand(&self, key: &Key) -> bool {
        // An item that is deleted within a moment of its last write, whose node dies with it, is what
        // the store does not promise anything about: this one's write is logged.
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.remove(place(key));
        true
    }

    async fn spoil(&self, key: &Key, damage: Damage) -> bool {
        let database = &self.database;
        let table_name = TABLE.to_owned();
        let get = GetItemRequest { table_name, key: place(key), ..GetItemRequest::default() };
        let mut item = database.get_item(get).expect("it is read").item.expect("an item");
        let Some(AttributeValue::B(bytes)) = item.get_mut("record") else { panic!("{item:?}") };
        match damage {
            Damage::Rot => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Damage::Newer => {
                bytes[0] = NEWER;
                let body = bytes.len() - 4;
                let sum = crc32fast::hash(&bytes[..body]);
                bytes[body..].copy_from_slice(&sum.to_le_bytes());
            }
        }
        let table_name = TABLE.to_owned();
        let put = PutItemRequest { table_name, item, ..PutItemRequest::default() };
        database.put_item(put).expect("it is written");
        true
    }

    /// Removes the older entries of the log, as the table's own time to live does.
    async fn forget_history(&self, store: &Arc<dyn LeaseStore>) -> bool {
        let key = key("forget/often");
        let mut expected = Revision::ABSENT;
        let before = self.log().len();
        for seq in 1..=20 {
            expected = commit(store, grant(&key, expected, seq)).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        eventually("the log has grown", async || self.log().len() > before + 5).await;
        let mut entries = self.log();
        entries.truncate(entries.len() - 3);
        entries.into_iter().for_each(|entry| self.remove(entry));
        true
    }

    async fn out_of_reach(&self, away: bool) -> bool {
        self.way.set(if away { Way::Silent } else { Way::Open });
        true
    }
}

conformance!(dynamodb, Dynamo);
