//! `tenure watch`: changes of ownership as they happen.

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

/// The key is looked at no more often than this while nothing is heard of it.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);
/// When to look again after the server could not tell.
const RETRY_LOOK: Duration = Duration::from_secs(1);

/// Print changes of ownership as they happen.
///
/// Resumes after a disconnect where it was. What the server can no longer replay is announced as `reset`.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Only this key
    #[arg(conflicts_with = "prefix")]
    key: Option<String>,
    /// Only keys that start with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only changes from or to this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only these types, with commas between: granted, released, expired, revoked, reclaimed,
    /// transferred…
    #[arg(long, value_name = "TYPES", conflicts_with = "until_free")]
    types: Option<String>,
    /// Only what follows this cursor; by default what happens from now on
    #[arg(long, value_name = "CURSOR", conflicts_with = "until_free")]
    after: Option<String>,
    /// Exit with 0 as soon as the key is free, at once when it is
    #[arg(long, requires = "key", conflicts_with = "owner")]
    until_free: bool,
    /// Give up after so long, with exit code 75
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
            // Whatever happened: only a look at the key, made while its changes are followed, tells
            // whether it is free.
            let look = match item {
                None | Some(StreamItem::Connected) => true,
                Some(StreamItem::Disconnected { problem, retry_in }) => {
                    let pause = format_duration(retry_in);
                    talk(&format!("the stream broke ({problem}); trying again in {pause}"));
                    // An attempt to connect must not be cut short by a look.
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

    /// The server filters by prefix; a single key is filtered here. A reset concerns everybody.
    fn concerns(&self, event: &Event) -> bool {
        match &self.key {
            Some(key) => event.kind == "reset" || event.key() == Some(key),
            None => true,
        }
    }
}

/// What a look at the key found.
enum Look {
    Free,
    /// An offer that nobody takes lapses without an event: look again when it should have.
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
        // The stream will break too, and when it is back we look again.
        Err(ClientError::Unreachable { .. }) => Ok(Look::Taken { again_in: None }),
        Err(ClientError::Refused(problem)) if problem.retryable => {
            Ok(Look::Taken { again_in: Some(RETRY_LOOK) })
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for the timer; for ever when there is none.
async fn due(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

fn print(context: &Context, event: &Event) -> Result<(), Failure> {
    let text = match context.output.format {
        Format::Table => line(event),
        // A document per event would be no document for any reader.
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
