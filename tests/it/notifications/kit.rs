//! A program that writes down what it is told, and what must hold for that.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use crate::support::harness::Server;

/// What a coordinator says when it begins to notify a plugin.
const NOTIFIES: &str = "this node notifies the plugin";

/// A plugin whose program writes each event into the file `name` of the directory, a line each. It fails while there is
/// a file `name.fail`, and takes `name.slow` seconds if there is such a file.
pub fn recorder(dir: &Path, name: &str, more: &str) -> String {
    let file = dir.join(name).display().to_string();
    let script = format!(
        "test -e {file}.fail && exit 7; test -e {file}.slow && sleep \"$(cat {file}.slow)\"; \
         echo \"$TENURE_EVENT $TENURE_KEY $TENURE_TOKEN $TENURE_OWNER $TENURE_PREVIOUS_OWNER\" >> {file}.words; \
         cat >> {file}"
    );
    format!(
        "[[plugin]]\nname = \"{name}\"\nkind = \"exec\"\n\
         command = [\"/bin/sh\", \"-c\", '''{script}''']\n{more}\n"
    )
}

/// The events that the program `name` wrote down.
pub fn told(dir: &Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    // A program that was killed may have left a part of a line.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The kind of an event, in short.
pub fn kind(event: &Value) -> &str {
    let kind = event["type"].as_str().unwrap_or_default();
    kind.strip_prefix("io.tenure.lease.").unwrap_or(kind)
}

/// How often the coordinator that said this began to notify a plugin.
pub fn begins(said: &str, name: &str) -> usize {
    let ours = |line: &&str| line.contains(NOTIFIES) && line.contains(name);
    said.lines().filter(ours).count()
}

/// Waits until the coordinator notifies a plugin.
pub async fn until_notifying(server: &Server, name: &str) {
    crate::support::harness::eventually("it notifies the plugin", async || {
        begins(&server.said(), name) > 0
    })
    .await;
}

/// Whether all of these events were told.
pub fn has_all(told: &[Value], expected: &[Value]) -> bool {
    expected.iter().all(|event| told.iter().any(|other| other["id"] == event["id"]))
}

/// Each event is the one that the history has, and those of one key came in order: each is the next one, or one that
/// was told before.
pub fn judge(told: &[Value], expected: &[Value]) {
    let mut keys: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in expected {
        keys.entry(event["subject"].as_str().expect("a key")).or_default().push(event);
    }
    let mut reached: BTreeMap<&str, usize> = BTreeMap::new();
    for event in told {
        let key = event["subject"].as_str().unwrap_or_else(|| panic!("no key: {event}"));
        let of_key = keys.get(key).unwrap_or_else(|| panic!("of no key: {event}"));
        let place = of_key.iter().position(|other| other["id"] == event["id"]);
        let place = place.unwrap_or_else(|| panic!("not in the history: {event}"));
        assert_eq!(event["type"], of_key[place]["type"]);
        // A node that was restarted may have another URL.
        for field in ["key", "seq", "owner", "token", "previous", "reason", "pool"] {
            assert_eq!(event["data"][field], of_key[place]["data"][field], "{field} of {event}");
        }
        let next = reached.entry(key).or_default();
        assert!(place <= *next, "{event} was told before {}", of_key[*next]);
        *next = (*next).max(place + 1);
    }
}
