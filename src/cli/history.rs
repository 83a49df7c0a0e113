//! `tenure history KEY`: who held a key, for how long, and how each tenure ended.

use clap::Args;

use super::{
    context::Context,
    event_line::line,
    exit::{Exit, Failure},
    format::Format,
    output::{Output, dash, lease_rows, pairs, shown, table, talk},
    when::brief,
};
use crate::client::{Event, History, PastTenure};

const HEADING: [&str; 7] = ["TOKEN", "OWNER", "BEGAN", "HELD_FOR", "ENDED", "END", "REASON"];
/// The further columns of a wide table.
const WIDE: [&str; 2] = ["ACTOR", "SESSION"];

/// Show who held a key, since when and for how long, how each tenure ended, and the events that tell of it.
///
/// The latest tenure comes first. A tenure without an END goes on. With --output wide, there are columns for who ended
/// it and for the session too; with jsonl, each line is a tenure.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Key of the lease
    key: String,
    /// Maximum number of events to look at (1–1000)
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

impl HistoryArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        let found = context.client.history(&self.key, Some(self.limit)).await?;
        match output.format {
            Format::Json => output.json(&found)?,
            Format::Jsonl => found.tenures.iter().try_for_each(|tenure| output.json(tenure))?,
            _ => output.text(&text(&found, output))?,
        }
        if !found.complete && output.format != Format::Json {
            talk(
                "there are earlier events that are not shown: more than --limit, or no longer kept",
            );
        }
        Ok(Exit::Done)
    }
}

/// The lease, its tenures and its events.
fn text(found: &History, output: &Output) -> String {
    let is_wide = output.format == Format::Wide;
    let mut text = pairs(&lease_rows(&found.lease), output.styled);
    if !found.tenures.is_empty() {
        let mut heading = HEADING.to_vec();
        heading.extend(WIDE.iter().filter(|_| is_wide));
        let rows: Vec<Vec<String>> =
            found.tenures.iter().map(|tenure| row(tenure, is_wide)).collect();
        text.push('\n');
        text.push_str(&table(&heading, &rows, output.styled));
    }
    if !found.events.is_empty() {
        text.push('\n');
        for event in &found.events {
            text.push_str(&line(&Event::of(event.clone()), is_wide, output.styled));
            text.push('\n');
        }
    }
    text
}

/// The cells of a tenure.
fn row(tenure: &PastTenure, is_wide: bool) -> Vec<String> {
    let text = |text: &Option<String>| text.as_deref().map_or_else(dash, shown);
    let mut cells = vec![
        tenure.token.to_string(),
        shown(&tenure.owner),
        text(&tenure.began),
        tenure.held_ms.map_or_else(dash, brief),
        text(&tenure.ended),
        text(&tenure.end),
        text(&tenure.reason),
    ];
    if is_wide {
        cells.extend([text(&tenure.actor), text(&tenure.session)]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::colour::Color;

    #[test]
    fn each_tenure_is_a_row_and_each_event_a_line() {
        let found: History = serde_json::from_value(json!({
            "lease": { "key": "k", "state": "free", "token": 7 },
            "tenures": [{ "owner": "w", "token": 7, "began": "1970-01-01T00:00:00.000Z",
                "ended": "1970-01-01T00:01:47.598Z", "held_ms": 107_598, "end": "revoked",
                "reason": "stuck", "actor": "ops" }],
            "events": [{ "type": "io.tenure.lease.revoked", "subject": "k",
                "time": "1970-01-01T00:01:47.598Z", "data": { "previous": { "owner": "w", "token": 7 } } }],
            "complete": true
        }))
        .unwrap();
        let told = |format| text(&found, &Output::new(format, Color::Never));
        let narrow = told(Format::Table);
        let words: Vec<Vec<&str>> =
            narrow.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(words.contains(&HEADING.to_vec()), "{narrow}");
        let (began, ended) = ("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:47.598Z");
        assert!(
            words.contains(&vec!["7", "w", began, "1m", "47s", ended, "revoked", "stuck"]),
            "{narrow}"
        );
        assert!(
            words.contains(&vec![ended, "revoked", "k", "former=w", "former_token=7"]),
            "{narrow}"
        );
        let wide = told(Format::Wide);
        assert!(wide.contains("ACTOR") && wide.contains("ops"), "{wide}");
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        let tenure = PastTenure { owner: "w".into(), token: 3, ..PastTenure::default() };
        assert_eq!(row(&tenure, true), ["3", "w", "-", "-", "-", "-", "-", "-", "-"]);
    }
}
