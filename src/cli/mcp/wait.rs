//! The tool `wait`: waits until the tenure of a key's holder is over, and takes nothing.

use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{
    answer::Answer,
    arguments::{Arguments, WAIT_SECONDS},
    holder::{Holder, is_unknown, never_claimed},
    view::{self, quoted, seconds},
};
use crate::client::{ClientError, Event, EventFilter, EventStream, LeaseView, StreamItem};

/// How long a call waits by default.
const USUAL: Duration = Duration::from_secs(20);
/// The pause before the key is read again: the server could not answer, or its answer was older than an event.
const AGAIN: Duration = Duration::from_secs(1);

/// The events that end a tenure.
const ENDS: [&str; 7] =
    ["released", "expired", "revoked", "reclaimed", "transferred", "session-ended", "fencing"];

/// Serves a call.
pub(super) async fn wait(holder: &Holder, mut given: Arguments) -> Result<Answer, Answer> {
    let (key, token) = (given.key()?, given.token()?);
    let span = given.seconds("wait_seconds", &WAIT_SECONDS)?.unwrap_or(USUAL);
    given.end()?;
    // What was there is read first, so that there is something to say when the time is up.
    let found = holder.look(&key).await?;
    let mut watched = Watched::new(key, token, found);
    if !watched.is_over() {
        let stream = holder
            .client
            .events(EventFilter { prefix: Some(watched.key.clone()), ..EventFilter::default() });
        if let Ok(Err(error)) = timeout(span, watched.until_over(holder, stream)).await {
            let what = format!("Cannot wait for {}.", quoted(&watched.key));
            return Err(Answer::refused(&what, &error));
        }
    }
    Ok(watched.answer(holder, span))
}

/// The key, and what was last seen of it.
struct Watched {
    key: String,
    /// The tenure whose end is awaited.
    token: Option<u64>,
    seen: LeaseView,
}

impl Watched {
    /// Awaits the end of the tenure with this token, or of the one that was found.
    fn new(key: String, token: Option<u64>, found: LeaseView) -> Self {
        Self { key, token: token.or(found.token), seen: found }
    }

    fn is_over(&self) -> bool {
        self.seen.state != "held" || self.seen.token != self.token
    }

    /// Whether this event says that the tenure is over.
    fn ends(&self, event: &Event) -> bool {
        let (key, token) = (event.key(), event.body["data"]["token"].as_u64());
        key == Some(self.key.as_str())
            && token.is_some_and(|token| Some(token) >= self.token)
            && ENDS.contains(&&*event.kind)
    }

    /// Reads the key after each of its events, until the tenure is over.
    async fn until_over(
        &mut self,
        holder: &Holder,
        mut stream: EventStream,
    ) -> Result<(), ClientError> {
        let (mut again, mut ended) = (false, false);
        loop {
            let item = tokio::select! {
                item = stream.next() => Some(item?),
                () = sleep(AGAIN), if again => None,
            };
            // Only a read, made while the stream is connected, tells for certain how the key is.
            let looks = match item {
                None | Some(StreamItem::Connected) => true,
                Some(StreamItem::Disconnected { .. }) => false,
                Some(StreamItem::Event(event)) => {
                    ended |= self.ends(&event);
                    again || event.kind == "reset" || event.key() == Some(self.key.as_str())
                }
            };
            if !looks {
                continue;
            }
            // An event can be heard a moment before a read shows it.
            again = ended;
            match holder.client.lease(&self.key).await {
                Ok(lease) => self.seen = lease,
                Err(error) if is_unknown(&error) => self.seen = never_claimed(&self.key),
                Err(error) if may_pass(&error) => again = true,
                Err(error) => return Err(error),
            }
            if self.is_over() {
                return Ok(());
            }
        }
    }

    fn answer(&self, holder: &Holder, span: Duration) -> Answer {
        let yours = holder.holds(&self.key, self.seen.token);
        let found = view::sentence(&self.seen, yours);
        let mut data = view::data(&self.seen, yours);
        data["over"] = json!(self.is_over());
        if !self.is_over() {
            let span = seconds(span);
            let message =
                format!("Not over after {span} s: {found} Call `wait` again to wait longer.");
            return Answer::done(message, data);
        }
        let mut message = match self.token.filter(|&token| token > 0) {
            Some(token) => format!("The tenure with token {token} is over. {found}"),
            None => found,
        };
        message += " You do not hold it: `claim` it before you work on it.";
        if let Some(value) = &self.seen.value {
            message += &format!(" {}", view::left(value));
        }
        Answer::done(message, data)
    }
}

/// Whether the same call may succeed in a moment. The stream, too, breaks when no server can be reached.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(problem) => problem.retryable,
        ClientError::Unreachable { .. } | ClientError::NoAnswer { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: &str, token: Option<u64>) -> LeaseView {
        LeaseView { state: state.into(), token, ..never_claimed("k") }
    }

    #[test]
    fn a_tenure_is_over_when_nobody_holds_the_key_or_another_one_does() {
        let over = |token, found| Watched::new("k".into(), token, found).is_over();
        assert!(!over(None, view("held", Some(7))), "the tenure that was found");
        assert!(!over(Some(7), view("held", Some(7))));
        assert!(over(Some(7), view("held", Some(8))), "the agent has seen an earlier one");
        for state in ["free", "cooling", "fencing", "offered"] {
            assert!(over(None, view(state, Some(7))), "{state}");
        }
        assert!(over(None, never_claimed("k")));
    }

    #[test]
    fn an_event_of_the_tenure_s_end_is_told_from_others() {
        let watched = Watched::new("k".into(), None, view("held", Some(7)));
        let ends = |key: &str, kind: &str, token: u64| {
            let body = json!({ "type": kind, "subject": key, "data": { "token": token } });
            watched.ends(&Event::of(body))
        };
        for kind in ENDS {
            assert!(ends("k", kind, 7), "{kind}");
            assert!(!ends("k", kind, 6), "{kind} of an earlier tenure");
            assert!(!ends("k2", kind, 7), "{kind} of another key");
        }
        for kind in ["granted", "pinned", "unpinned", "handover-requested"] {
            assert!(!ends("k", kind, 7), "{kind}");
        }
    }

    #[test]
    fn what_was_seen_later_ends_the_wait() {
        let mut watched = Watched::new("k".into(), None, view("held", Some(7)));
        watched.seen = view("held", Some(8));
        assert!(watched.is_over());
    }
}
