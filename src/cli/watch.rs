//! `tenure watch`: prints changes of ownership as they happen.

use std::{pin::Pin, time::Duration};

use clap::Args;
use serde_json::Value;
use tokio::time::Sleep;

use super::{
    Context, Exit, Failure,
    args::duration,
    output::{Format, shown, talk},
};
use crate::{
    client::{ClientError, Event, EventFilter, StreamItem},
    settings::format_duration,
};

/// The shortest time between two reads of the key while no event arrives.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);
/// The pause before the key is read again if the server could not answer.
const RETRY_LOOK: Duration = Duration::from_secs(1);

/// Print changes of ownership as they happen.
///
/// After a disconnect, the stream resumes at the last event. A `reset` announces that events are missing, because the
/// server can no longer replay them.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Only this key
    #[arg(conflicts_with = "prefix")]
    key: Option<String>,
    /// Only keys with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Only changes from or to this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only these event types, separated by commas: granted, released, expired, revoked, reclaimed,
    /// transferred…
    #[arg(long, value_name = "TYPES", conflicts_with = "until_free")]
    types: Option<String>,
    /// Start after this cursor [default: from now on]
    #[arg(long, value_name = "CURSOR", conflicts_with = "until_free")]
    after: Option<String>,
    /// Exit with 0 as soon as the key is free
    #[arg(long, requires = "key", conflicts_with = "owner")]
    until_free: bool,
    /// Give up after this time, with exit code 75
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    timeout: Option<Duration>,
}

impl WatchArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.timeout {
            None => self.follow(context).await,
            Some(span) => tokio::time::timeout(span, self.follow(context)).await.map_err(|_| {
                Failure::TimedOut(format!("gave up after {}", format_duration(span)))
            })?,
        }
    }

    async fn follow(&self, context: &Context) -> Result<Exit, Failure> {
        let mut stream = context.client.events(EventFilter {
            prefix: self.key.clone().or_else(|| self.prefix.clone()),
            owner: self.owner.clone(),
            types: self.types.clone(),
            after: self.after.clone(),
        });
        let awaited = self.key.as_deref().filter(|_| self.until_free);
        let mut again = None;
        loop {
            let item = tokio::select! {
                item = stream.next() => Some(item?),
                () = due(&mut again) => None,
            };
            // No event tells for certain that the key is free. Only a read does, made while the stream is connected.
            let look = match item {
                None | Some(StreamItem::Connected) => true,
                Some(StreamItem::Disconnected { problem, retry_in }) => {
                    let pause = format_duration(retry_in);
                    talk(&format!("the event stream broke ({problem}); reconnecting in {pause}"));
                    // A read of the key must not interrupt the attempt to connect.
                    again = None;
                    false
                }
                Some(StreamItem::Event(event)) if self.concerns(&event) => {
                    print(context, &event)?;
                    true
                }
                Some(StreamItem::Event(_)) => false,
            };
            if let (Some(key), true) = (awaited, look) {
                match look_at(context, key).await? {
                    Look::Free => return Ok(Exit::Done),
                    Look::Taken { again_in } => {
                        again = again_in.map(|span| Box::pin(tokio::time::sleep(span)));
                    }
                }
            }
        }
    }

    /// The server filters by prefix only, so a single key is filtered here. A reset concerns every key.
    fn concerns(&self, event: &Event) -> bool {
        match &self.key {
            Some(key) => event.kind == "reset" || event.key() == Some(key),
            None => true,
        }
    }
}

/// What a read of the key found.
enum Look {
    Free,
    /// An offer that is not taken lapses without an event, so the key is read again after `again_in`.
    Taken {
        again_in: Option<Duration>,
    },
}

async fn look_at(context: &Context, key: &str) -> Result<Look, Failure> {
    match context.client.lease(key).await {
        Ok(lease) if lease.state == "free" => Ok(Look::Free),
        Ok(lease) => {
            let left = lease.expires_in_ms.map(Duration::from_millis);
            Ok(Look::Taken { again_in: left.map(|left| left.max(SHORTEST_LOOK)) })
        }
        Err(ClientError::Refused(problem)) if problem.code == "unknown-key" => Ok(Look::Free),
        // The stream breaks too. When it is connected again, the key is read again.
        Err(ClientError::Unreachable { .. }) => Ok(Look::Taken { again_in: None }),
        Err(ClientError::Refused(problem)) if problem.retryable => {
            Ok(Look::Taken { again_in: Some(RETRY_LOOK) })
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for the timer. Without a timer, it waits forever.
async fn due(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

fn print(context: &Context, event: &Event) -> Result<(), Failure> {
    let text = match context.output.format {
        Format::Table => line(event),
        // Several indented documents in a row would not be one JSON document, so each event is one line.
        Format::Json | Format::Jsonl => event.body.to_string(),
    };
    Ok(context.output.text(&format!("{text}\n"))?)
}

/// `2026-11-21T02:20:00.125Z  granted  jobs/1  owner=w2 token=8 was=w1/7 reason=…`.
fn line(event: &Event) -> String {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(shown(text)),
        other => Some(other.to_string()),
    };
    let data = &event.body["data"];
    let mut words = Vec::new();
    for name in ["owner", "token"] {
        words.extend(text(&data[name]).map(|value| format!("{name}={value}")));
    }
    if let Some(owner) = text(&data["previous"]["owner"]) {
        let token = text(&data["previous"]["token"]).unwrap_or_default();
        words.push(format!("was={owner}/{token}"));
    }
    for name in ["reason", "seq"] {
        words.extend(text(&data[name]).map(|value| format!("{name}={value}")));
    }
    let time = text(&event.body["time"]).unwrap_or_else(|| "-".into());
    let key = shown(event.key().unwrap_or("-"));
    format!("{time:24}  {:12}  {key}  {}", shown(&event.kind), words.join(" "))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let body = json!({"subject": "jobs/1", "time": "2026-11-21T02:20:00.125Z", "data": {
            "owner": "w\n2", "token": 8, "previous": {"owner": "w1", "token": 7}, "seq": 3, "reason": null}});
        let event = Event { cursor: Some("8-0".into()), kind: "granted".into(), body };
        assert_eq!(
            line(&event),
            "2026-11-21T02:20:00.125Z  granted       jobs/1  owner=w\\n2 token=8 was=w1/7 seq=3"
        );
        let reset = Event { cursor: None, kind: "reset".into(), body: json!({}) };
        assert_eq!(line(&reset).split_whitespace().collect::<Vec<_>>(), ["-", "reset", "-"]);
    }
}
