//! The latest events from before the program was started.

use std::collections::VecDeque;

use crate::client::{Client, ClientError, Event, EventFilter};

/// How far to look back, in revisions of the store: further if there are too few events.
const STEPS: [u64; 3] = [256, 1024, 4096];
/// How many events are enough.
const ENOUGH: usize = 40;

/// Some of the latest events with this filter, the oldest first, and the cursor after them.
pub(super) async fn latest(
    client: &Client,
    filter: &EventFilter,
) -> Result<(VecDeque<Event>, String), ClientError> {
    let end = client.past_events(filter).await?.next;
    let mut found = (VecDeque::new(), end.clone());
    for step in STEPS {
        let Some(from) = earlier(&end, step) else { break };
        let is_beginning = from.ends_with("-0-0");
        found = after(client, filter, from).await?;
        if found.0.len() >= ENOUGH || is_beginning {
            break;
        }
    }
    Ok(found)
}

async fn after(
    client: &Client,
    filter: &EventFilter,
    mut next: String,
) -> Result<(VecDeque<Event>, String), ClientError> {
    let mut events = VecDeque::new();
    loop {
        let filter = EventFilter { after: Some(next.clone()), ..filter.clone() };
        let page = client.past_events(&filter).await?;
        let is_last = page.events.is_empty() && (!page.reset || page.next == next);
        next = page.next;
        events.extend(page.events);
        events.drain(..events.len().saturating_sub(ENOUGH));
        if is_last {
            return Ok((events, next));
        }
    }
}

/// The cursor so many revisions earlier, or the beginning. A cursor is `<tag>-<revision>-<index>`.
fn earlier(cursor: &str, revisions: u64) -> Option<String> {
    let mut parts = cursor.split('-');
    let (tag, revision) = (parts.next()?, parts.next()?.parse::<u64>().ok()?);
    Some(format!("{tag}-{}-0", revision.saturating_sub(revisions)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_back_to_the_beginning_at_most() {
        assert_eq!(earlier("a1-700-3", 256).as_deref(), Some("a1-444-0"));
        assert_eq!(earlier("a1-100-3", 256).as_deref(), Some("a1-0-0"));
        assert_eq!(earlier("0", 256), None);
    }
}
