//! A listener of one node's event stream, that comes back whenever the stream breaks, and the history that the
//! store has at the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::StreamExt;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::support::http;
use crate::{
    clock::{ms, now, sleep_ms},
    history::{Event, Log, committed},
};

/// A comment comes every five seconds: a stream that is silent for longer is dead.
const SILENCE_MS: u64 = 8_000;
/// Changes of one page of the history.
const PAGE_PATIENCE_MS: u64 = 10_000;

/// Where a change stands in the store's history: which store, where there was another one before a restore, the
/// entry's number, and its place in the entry.
type Position = (usize, u64, u32);

#[derive(Debug, Default)]
struct All {
    /// Tags of stores, in the order in which they were first heard of.
    stores: Vec<String>,
    /// The store is one that goes backwards.
    forgetful: bool,
    /// Each is [`Event::Committed`].
    changes: BTreeMap<Position, Event>,
}

/// What all listeners heard, in the order of the store's history.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Mutex<All>>);

#[derive(Debug)]
pub struct Listener {
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Heard {
    /// `id` is the change's cursor.
    fn note(&self, id: &str, change: Event) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<&str> = id.split('-').collect();
        let [tag, revision, index] = parts[..] else { panic!("{id} is no cursor") };
        let known = all.stores.iter().position(|store| store == tag);
        let store = known.unwrap_or_else(|| {
            all.stores.push(tag.to_owned());
            all.stores.len() - 1
        });
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let index = u32::try_from(number(index)).expect("few changes at a time");
        let before = all.changes.insert((store, number(revision), index), change.clone());
        // What was written into a store that went backwards, and before anybody knew, is not told from what it
        // forgot.
        let same = before.as_ref().is_none_or(|before| *before == change);
        assert!(same || all.forgetful, "{id}: {before:?}, {change:?}");
    }

    pub fn may_contradict(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).forgetful = true;
    }

    pub fn keys(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |change: &Event| match change {
            Event::Committed { key, .. } => Some(key.clone()),
            _ => None,
        };
        let keys: BTreeSet<String> = all.changes.values().filter_map(key).collect();
        keys.into_iter().collect()
    }

    /// Writes it all down as the store's own history, with the tombstones of sessions: those with a revision,
    /// where revisions are those of the history, in their place, others before everything.
    pub fn write_down(&self, tombstones: &[(Option<u64>, String)], log: &Log) {
        log.push(now(), Event::LateCommits);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sessions are in the backup of the store that there is at the end.
        let store = all.stores.len().saturating_sub(1);
        let changes = all.changes.iter().map(|(position, change)| (*position, change.clone()));
        let mut lines: Vec<(Position, Event)> = changes.collect();
        for (revision, session) in tombstones {
            let position = revision.map_or((0, 0, 0), |revision| (store, revision, 0));
            lines.push((position, Event::Tombstone { session: session.clone() }));
        }
        lines.sort_by_key(|(position, _)| *position);
        for (_, event) in lines {
            log.push(now(), event);
        }
    }
}

impl Listener {
    /// Listens to a node from the beginning of what is kept.
    pub fn start(name: &str, url: &str, log: Log, heard: Heard) -> Self {
        let (name, url) = (name.to_owned(), url.to_owned());
        let task = tokio::spawn(async move {
            let http = http::builder().connect_timeout(ms(1_000));
            let http = http.build().expect("a client");
            let mut cursor = "0".to_owned();
            loop {
                let _ = listen(&http, &url, &mut cursor, &name, &log, &heard).await;
                sleep_ms(200).await;
            }
        });
        Self { task }
    }
}

async fn listen(
    http: &reqwest::Client,
    url: &str,
    cursor: &mut String,
    name: &str,
    log: &Log,
    heard: &Heard,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let request = http.get(format!("{url}/v1/events?after={cursor}"));
    let response = tokio::time::timeout(ms(3_000), request.send()).await??.error_for_status()?;
    let mut stream = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = tokio::time::timeout(ms(SILENCE_MS), stream.next()).await? {
        buffer.extend_from_slice(&chunk?);
        while let Some(end) = buffer.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = buffer.drain(..end + 2).collect();
            take(std::str::from_utf8(&block)?, cursor, name, log, heard);
        }
    }
    Ok(())
}

/// Takes one event as the stream has it.
fn take(block: &str, cursor: &mut String, name: &str, log: &Log, heard: &Heard) {
    let field = |field: &str| {
        block.lines().find_map(|line| line.strip_prefix(field)).map(|text| text.trim_start())
    };
    let (Some(id), Some(kind), Some(data)) = (field("id:"), field("event:"), field("data:")) else {
        return;
    };
    id.clone_into(cursor);
    let subscriber = name.to_owned();
    if kind == "reset" {
        log.push(now(), Event::Reset { subscriber });
        return;
    }
    let event: Value = serde_json::from_str(data).expect("JSON");
    let change = committed(&event);
    heard.note(id, change.clone());
    let Event::Committed { key, seq, kind, token, .. } = change else { unreachable!("it is one") };
    log.push(now(), Event::Heard { subscriber, key, seq, kind, token });
}

/// Adds what the store's own history has, as a node reads it from the beginning. How many changes it has.
pub async fn read_history(url: &str, heard: &Heard) -> Result<usize, String> {
    let http = http::builder().timeout(ms(PAGE_PATIENCE_MS));
    let http = http.build().expect("a client");
    let (mut cursor, mut count) = ("0".to_owned(), 0);
    loop {
        let url = format!("{url}/v1/events?format=json&wait_ms=0&after={cursor}");
        let answer = http.get(url).send().await.map_err(|why| why.to_string())?;
        let page: Value = answer.json().await.map_err(|why| why.to_string())?;
        let events = page["events"].as_array().ok_or_else(|| page.to_string())?;
        for event in events {
            heard.note(event["id"].as_str().expect("an id"), committed(event));
            count += 1;
        }
        if events.is_empty() && page["reset"] != true {
            return Ok(count);
        }
        page["next"].as_str().ok_or_else(|| page.to_string())?.clone_into(&mut cursor);
    }
}
