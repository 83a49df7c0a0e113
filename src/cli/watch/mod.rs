//! `tenure watch`: prints changes of ownership as they happen.

mod past;

use std::time::Duration;

use clap::Args;

use self::past::Past;
use super::{
    args::duration,
    context::Context,
    event_line::{heading, print},
    exit::{Exit, Failure},
    format::Format,
    output::talk,
    when::{Since, due},
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
///
/// --since and --last begin with past changes. For them, the server is asked for all changes that it still keeps, so
/// filters make the answer faster. With --output wide, there is a heading, the time of day alone, and who gave an order.
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
    /// Start after this cursor; 0 is the oldest change that the server keeps [default: from now on]
    #[arg(long, value_name = "CURSOR", conflicts_with_all = ["until_free", "since", "last"])]
    after: Option<String>,
    /// Start with the changes since this time: a duration before now such as 10m, or 2026-11-22T02:00:00Z
    #[arg(long, value_name = "TIME", value_parser = Since::parse, conflicts_with = "until_free")]
    since: Option<Since>,
    /// Start with the last N changes
    #[arg(long, value_name = "N", conflicts_with = "until_free")]
    last: Option<usize>,
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
        let mut filter = EventFilter {
            prefix: self.key.clone().or_else(|| self.prefix.clone()),
            owner: self.owner.clone(),
            types: self.types.clone(),
            after: self.after.clone(),
        };
        if context.output.format == Format::Wide {
            context.output.text(&heading())?;
        }
        if self.since.is_some() || self.last.is_some() {
            let past = Past::new(self.since.map(Since::wall_ms), self.last);
            let concerns = |event: &Event| self.concerns(event);
            filter.after = Some(past.print(context, filter.clone(), concerns).await?);
        }
        let mut stream = context.client.events(filter);
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
