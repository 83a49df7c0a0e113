//! A listener of one node's event stream, that comes back whenever the stream breaks.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::StreamExt;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::cluster::ledger::Lease;

use crate::support::clock::{ms, sleep_ms};

/// A comment comes every five seconds: a stream that is silent for longer is dead.
const SILENCE_MS: u64 = 8_000;

/// A change as a subscriber was told it: short type, owner, token, the tenure before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    kind: String,
    owner: Option<String>,
    token: u64,
    previous: Option<(String, u64)>,
    reason: Option<String>,
}

/// All that one subscriber was told.
#[derive(Debug, Default)]
pub struct Heard {
    /// Per key, by `seq`.
    keys: BTreeMap<String, BTreeMap<u64, Told>>,
    last: HashMap<String, u64>,
    cursor: Option<String>,
    events: u64,
    repeated: u64,
    resets: Vec<String>,
    broken: u64,
    /// What contradicts what was told before.
    faults: Vec<String>,
}

#[derive(Debug)]
pub struct Subscriber {
    pub url: String,
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscriber {
    /// Listens from the beginning of what is kept.
    pub fn start(url: &str) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (to, from) = (heard.clone(), url.to_owned());
        let task = tokio::spawn(async move {
            let http = reqwest::Client::builder().no_proxy().build().expect("a client");
            loop {
                let _ = listen(&http, &from, &to).await;
                lock(&to).broken += 1;
                sleep_ms(200).await;
            }
        });
        Self { url: url.to_owned(), heard, task }
    }

    /// The highest `seq` of each key.
    pub fn last(&self) -> BTreeMap<String, u64> {
        let heard = lock(&self.heard);
        let last = heard
            .keys
            .iter()
            .filter_map(|(key, told)| told.last_key_value().map(|(seq, _)| (key.clone(), *seq)));
        last.collect()
    }

    pub fn summary(&self) -> String {
        let heard = lock(&self.heard);
        format!(
            "{}: {} events, {} of them again, {} times broken, resets {:?}",
            self.url, heard.events, heard.repeated, heard.broken, heard.resets
        )
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(
    http: &reqwest::Client,
    url: &str,
    heard: &Mutex<Heard>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let after = lock(heard).cursor.clone().unwrap_or_else(|| "0".to_owned());
    let request = http.get(format!("{url}/v1/events?after={after}"));
    let response = tokio::time::timeout(ms(3_000), request.send()).await??.error_for_status()?;
    let mut stream = response.bytes_stream();
    let mut buffer = String::new();
    while let Some(chunk) = tokio::time::timeout(ms(SILENCE_MS), stream.next()).await? {
        buffer.push_str(std::str::from_utf8(&chunk?)?);
        while let Some(end) = buffer.find("\n\n") {
            let block: String = buffer.drain(..end + 2).collect();
            lock(heard).take(&block);
        }
    }
    Ok(())
}

impl Heard {
    /// Takes one event as the stream has it.
    pub fn take(&mut self, block: &str) {
        let field = |name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim_start())
        };
        let (Some(id), Some(kind), Some(data)) = (field("id:"), field("event:"), field("data:"))
        else {
            return;
        };
        self.cursor = Some(id.to_owned());
        if kind == "reset" {
            self.resets.push(data.to_owned());
            // What follows may begin anywhere.
            self.last.clear();
            return;
        }
        let event: Value = serde_json::from_str(data).expect("JSON");
        self.change(kind, &event["data"]);
    }

    fn change(&mut self, kind: &str, data: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let previous = &data["previous"];
        let previous = text(&previous["owner"]).zip(previous["token"].as_u64());
        let told = Told {
            kind: kind.to_owned(),
            owner: text(&data["owner"]),
            token: data["token"].as_u64().expect("token"),
            previous,
            reason: text(&data["reason"]),
        };
        let key = text(&data["key"]).expect("key");
        let seq = data["seq"].as_u64().expect("seq");
        self.events += 1;
        let all = self.keys.entry(key.clone()).or_default();
        if let Some(before) = all.get(&seq) {
            self.repeated += 1;
            if *before != told {
                self.faults.push(format!("{key} {seq} was {before:?} and is {told:?}"));
            }
            return;
        }
        // Before a reset the next is the one after the last; after it, whatever comes.
        let first = !self.last.contains_key(&key);
        let last = self.last.insert(key.clone(), seq).unwrap_or(0);
        let begins_anywhere = first && !self.resets.is_empty();
        if seq != last + 1 && !begins_anywhere {
            self.faults
                .push(format!("{key}: {seq} follows {last}, and no reset was said: {told:?}"));
        }
        all.insert(seq, told);
    }
}

/// [`check_all`] of what these were told.
pub fn check(subscribers: &[Subscriber], tenures: &[Lease]) -> usize {
    let all: Vec<_> = subscribers
        .iter()
        .map(|s| (s.url.as_str(), std::mem::take(&mut *lock(&s.heard))))
        .collect();
    check_all(&all, tenures)
}

/// I2 and I4: what all subscribers were told is one history, whole, and it has every grant that a
/// worker was told. Returns how many changes it has.
pub fn check_all(subscribers: &[(&str, Heard)], tenures: &[Lease]) -> usize {
    let mut all: BTreeMap<&String, BTreeMap<u64, &Told>> = BTreeMap::new();
    for (name, heard) in subscribers {
        assert!(heard.faults.is_empty(), "{name}: {:#?}", heard.faults);
        for (key, told) in &heard.keys {
            let one = all.entry(key).or_default();
            for (seq, told) in told {
                assert_eq!(*one.entry(*seq).or_insert(told), told, "{name}: {key} {seq}");
            }
        }
    }
    let reset = subscribers.iter().any(|(_, heard)| !heard.resets.is_empty());
    let mut granted = HashSet::new();
    for (key, told) in &all {
        let numbers: Vec<u64> = told.keys().copied().collect();
        let whole = (1..=numbers.len() as u64).eq(numbers.iter().copied());
        assert!(whole || reset, "{key}: a hole in {numbers:?}");
        let mut highest = 0;
        for (seq, change) in told.iter().filter(|(_, change)| change.kind == "granted") {
            let revived = change.reason.as_deref() == Some("revived");
            let rises = if revived { change.token == highest } else { change.token > highest };
            assert!(rises || reset, "{key} {seq}: {change:?} after the token {highest}");
            highest = change.token;
            granted.insert((*key, change.token, change.owner.as_ref()));
        }
    }
    for Lease { key, token, owner } in tenures {
        let there = granted.contains(&(key, *token, Some(owner)));
        assert!(there || reset, "the grant of {key} to {owner} under {token} was told to nobody");
    }
    all.values().map(BTreeMap::len).sum()
}

/// Waits until every subscriber has heard all that any of them has, and nothing new comes.
pub async fn settled(subscribers: &[Subscriber], patience_ms: u64) {
    let (mut before, mut same_for) = (BTreeMap::new(), 0);
    let mut waited = 0;
    while same_for < 1_500 {
        let all: Vec<_> = subscribers.iter().map(Subscriber::last).collect();
        let agree = all.windows(2).all(|pair| pair[0] == pair[1]);
        let quiet = agree && all.first().is_some_and(|first| *first == before);
        same_for = if quiet { same_for + 250 } else { 0 };
        before = all.into_iter().next().unwrap_or_default();
        if waited > patience_ms {
            let said: Vec<_> = subscribers.iter().map(Subscriber::summary).collect();
            panic!("the subscribers do not come to agree: {said:#?}");
        }
        sleep_ms(250).await;
        waited += 250;
    }
}
