//! The changes from before the command was started.

use std::collections::VecDeque;

use crate::{
    cli::{context::Context, event_line::print, exit::Failure, output::talk, when},
    client::{Event, EventFilter},
};

/// The cursor of the oldest change that the server keeps.
const OLDEST: &str = "0";

/// Which past changes are printed.
pub(super) struct Past {
    /// Only those since this time, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// Only the last ones.
    last: Option<usize>,
}

impl Past {
    pub(super) fn new(since_ms: Option<u64>, last: Option<usize>) -> Self {
        Self { since_ms, last }
    }

    /// Prints them. Returns the cursor from which the stream of new changes continues without a gap.
    pub(super) async fn print(
        &self,
        context: &Context,
        mut filter: EventFilter,
        concerns: impl Fn(&Event) -> bool,
    ) -> Result<String, Failure> {
        let mut after = OLDEST.to_owned();
        let mut kept = VecDeque::new();
        loop {
            filter.after = Some(after.clone());
            let page = context.client.past_events(&filter).await?;
            if page.reset {
                talk("changes are missing: the server no longer keeps them");
            }
            let is_last = page.events.is_empty() && (!page.reset || page.next == after);
            after = page.next;
            for event in page.events {
                if !self.is_recent(&event) || !concerns(&event) {
                    continue;
                }
                let Some(most) = self.last else {
                    print(context, &event)?;
                    continue;
                };
                kept.push_back(event);
                if kept.len() > most {
                    kept.pop_front();
                }
            }
            if is_last {
                break;
            }
        }
        kept.iter().try_for_each(|event| print(context, event))?;
        Ok(after)
    }

    /// Whether it is not too old. An event without a time is not.
    fn is_recent(&self, event: &Event) -> bool {
        let at = event.body["time"].as_str().and_then(when::wall_ms);
        self.since_ms.is_none_or(|since| at.is_none_or(|at| at >= since))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_too_old_is_left_out() {
        let event = |time: &str| Event {
            cursor: None,
            kind: "granted".into(),
            body: json!({ "time": time }),
        };
        let past = Past::new(Some(1_000), None);
        assert!(!past.is_recent(&event("1970-01-01T00:00:00.999Z")));
        assert!(past.is_recent(&event("1970-01-01T00:00:01.000Z")));
        assert!(past.is_recent(&event("?")));
        assert!(Past::new(None, Some(3)).is_recent(&event("1970-01-01T00:00:00.000Z")));
    }
}
