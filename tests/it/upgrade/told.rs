//! What the store committed, as its nodes tell it.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tenure::lease::{Key, KeyState, Record};

use crate::{
    history::{Event, Log, committed},
    support::{
        clock::{ms, now, sleep_ms},
        http,
        node::Node,
    },
    upgrade::Version,
};

/// How long one page of the history may take.
const PAGE: Duration = Duration::from_secs(5);

/// The number of an entry of the store's history, and the place in it.
type Position = (u64, u32);

/// The changes of the store's history, each once.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<Mutex<BTreeMap<Position, Event>>>);

impl Told {
    /// Reads on, at one node after the other, until it is dropped. A cursor of one node is good at every other one.
    pub async fn follow(self, nodes: Vec<String>) {
        let http = http::builder().timeout(PAGE).build().expect("a client");
        let (mut cursor, mut at) = ("0".to_owned(), 0);
        loop {
            if self.read(&http, &nodes[at % nodes.len()], &mut cursor).await.is_none() {
                at += 1;
            }
            sleep_ms(100).await;
        }
    }

    /// Reads all that there is after the cursor; `None` if the node does not tell.
    async fn read(&self, http: &reqwest::Client, node: &str, cursor: &mut String) -> Option<()> {
        loop {
            let url = format!("{node}/v1/events?format=json&wait_ms=0&after={cursor}");
            let answer = http.get(url).send().await.ok()?.error_for_status().ok()?;
            let page: Value = answer.json().await.ok()?;
            assert_eq!(page["reset"], false, "the history has a gap: {page}");
            let events = page["events"].as_array()?;
            for event in events {
                self.note(event);
            }
            page["next"].as_str()?.clone_into(cursor);
            if events.is_empty() {
                return Some(());
            }
        }
    }

    fn note(&self, event: &Value) {
        let id = event["id"].as_str().expect("an id");
        let mut parts = id.rsplit('-');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let (index, revision) = (number().expect("an index"), number().expect("a revision"));
        let position = (revision, u32::try_from(index).expect("few changes at a time"));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let change = committed(event);
        let before = all.insert(position, change.clone());
        assert!(
            before.is_none_or(|before| before == change),
            "{id} is told in two ways: {change:?}"
        );
    }

    /// How many changes were told.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Writes it down as the store's own history, behind the tombstones.
    pub fn write_down(&self, tombstones: Vec<String>, log: &Log) {
        log.push(now().0, Event::LateCommits);
        for session in tombstones {
            log.push(now().0, Event::Tombstone { session });
        }
        for change in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            log.push(now().0, change.clone());
        }
    }
}

/// The sessions that are over, as a backup of the node's store has them.
pub fn tombstones(node: &Node, dir: &Path) -> Vec<String> {
    let file = dir.join("backup.jsonl");
    let mut backup = Version::This.command();
    backup.args(["backup", "--file"]).arg(&file).args(node.sets());
    let done = backup.output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(&file).expect("it was written");
    let over = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let session = Key::stored(line["key"].as_str()?).ok()?.session()?;
        let record = Record::decode(&unhex(line["record"].as_str()?)).expect("a record");
        (record.state != KeyState::Held).then(|| session.to_string())
    };
    text.lines().filter_map(over).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Waits until nothing new was told for a while.
pub async fn settled(told: &Told) {
    let mut before = usize::MAX;
    while before != told.count() {
        before = told.count();
        tokio::time::sleep(ms(1_500)).await;
    }
}
