//! Changes as `/v1/events` tells them.

use serde_json::Value;

use super::Event;

/// An event of the store's history, as what the store committed.
pub fn committed(event: &Value) -> Event {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = event["type"].as_str().and_then(|kind| kind.rsplit('.').next()).expect("a type");
    let data = &event["data"];
    let (mut token, mut owner) = (data["token"].as_u64(), text(&data["owner"]));
    if kind != "granted" {
        // It is about the tenure that ended.
        let previous = &data["previous"];
        token = previous["token"].as_u64().or(token);
        owner = text(&previous["owner"]).or(owner);
    }
    Event::Committed {
        key: text(&data["key"]).expect("a key"),
        seq: data["seq"].as_u64().expect("a number"),
        kind: kind.to_owned(),
        token: token.expect("a token"),
        owner: owner.unwrap_or_default(),
        session: text(&data["session"]),
        fences: Vec::new(),
        sent: None,
    }
}
