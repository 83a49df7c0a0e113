//! An event as one line for people.

use serde_json::Value;

use super::{colour, context::Context, exit::Failure, format::Format, output::shown};
use crate::client::Event;

/// How lines are written.
struct Line {
    /// Whether there are columns under a heading, and more of them.
    is_wide: bool,
    styled: bool,
}

/// The width of the column of kinds.
const KIND: usize = 12;

/// The heading of wide lines.
pub(super) fn heading() -> String {
    format!("{:12}  {:KIND$}  KEY  CHANGE\n", "TIME", "EVENT")
}

/// Prints an event in the format that the user chose.
pub(super) fn print(context: &Context, event: &Event) -> Result<(), Failure> {
    let output = &context.output;
    let text = if output.format.is_json() {
        // Several indented documents in a row would not be one JSON document, so each event is one line.
        event.body.to_string()
    } else {
        line(event, output.format == Format::Wide, output.styled)
    };
    Ok(output.text(&format!("{text}\n"))?)
}

/// An event as a line without its end.
pub(super) fn line(event: &Event, is_wide: bool, styled: bool) -> String {
    Line { is_wide, styled }.of(event)
}

/// When an event happened: the time of day, in UTC.
pub(super) fn time_of_day(event: &Event) -> String {
    let time = text(&event.body["time"]).unwrap_or_else(|| "-".into());
    let of_day = time.split_once('T').map_or(&*time, |(_, of_day)| of_day);
    of_day.trim_end_matches('Z').to_owned()
}

/// What an event changed: `owner=w2 token=8 former=w1 former_token=7 reason=…`.
pub(super) fn change(event: &Event) -> String {
    words(event).join(" ")
}

fn words(event: &Event) -> Vec<String> {
    let data = &event.body["data"];
    let mut words = named(data, &["owner", "token"]);
    if let Some(owner) = text(&data["previous"]["owner"]) {
        let token = text(&data["previous"]["token"]).unwrap_or_default();
        words.push(format!("former={owner} former_token={token}"));
    }
    words.extend(named(data, &["reason", "seq"]));
    words
}

impl Line {
    /// `2026-11-21T02:20:00.125Z  granted  jobs/1  owner=w2 token=8 former=w1 former_token=7 reason=…`.
    fn of(&self, event: &Event) -> String {
        let mut words = words(event);
        if self.is_wide {
            words.extend(named(&event.body["data"], &["actor", "pool", "node"]));
        }
        let key = shown(event.key().unwrap_or("-"));
        let kind = format!("{:KIND$}", shown(&event.kind));
        let kind = if self.styled { colour::event(&event.kind, &kind) } else { kind };
        let line = format!("{}  {kind}  {key}  {}", self.time(event), words.join(" "));
        line.trim_end().to_owned()
    }

    fn time(&self, event: &Event) -> String {
        if self.is_wide {
            return format!("{:12}", time_of_day(event));
        }
        let time = text(&event.body["time"]).unwrap_or_else(|| "-".into());
        format!("{time:24}")
    }
}

fn named(data: &Value, names: &[&str]) -> Vec<String> {
    let word = |name: &&str| text(&data[*name]).map(|value| format!("{name}={value}"));
    names.iter().filter_map(word).collect()
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(shown(text)),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn granted() -> Event {
        let body = json!({"subject": "jobs/1", "time": "2026-11-21T02:20:00.125Z", "data": {
            "owner": "w\n2", "token": 8, "previous": {"owner": "w1", "token": 7}, "seq": 3, "reason": null,
            "actor": "admin", "pool": "jobs"}});
        Event { cursor: Some("8-0".into()), kind: "granted".into(), body }
    }

    #[test]
    fn an_event_is_one_line() {
        let line = Line { is_wide: false, styled: false };
        assert_eq!(
            line.of(&granted()),
            "2026-11-21T02:20:00.125Z  granted       jobs/1  owner=w\\n2 token=8 former=w1 former_token=7 seq=3"
        );
        let reset = Event { cursor: None, kind: "reset".into(), body: json!({}) };
        assert_eq!(line.of(&reset).split_whitespace().collect::<Vec<_>>(), ["-", "reset", "-"]);
    }

    #[test]
    fn a_wide_line_has_the_time_of_day_and_who_gave_the_order() {
        let line = Line { is_wide: true, styled: true };
        assert_eq!(
            line.of(&granted()),
            "02:20:00.125  \u{1b}[32mgranted     \u{1b}[0m  jobs/1  owner=w\\n2 token=8 former=w1 former_token=7 seq=3 actor=admin \
             pool=jobs"
        );
        assert_eq!(heading(), "TIME          EVENT         KEY  CHANGE\n");
    }
}
