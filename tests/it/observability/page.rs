//! The page of metrics is written from the table.

use std::{fmt::Write as _, path::Path};

use tenure::telemetry::{MetricKind, Series, TABLE};

const BEGIN: &str = "<!-- The table is generated: make openapi -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// The unit that a name tells.
fn unit(series: &Series) -> &'static str {
    let name = series.name.trim_end_matches("_total");
    let endings = [("_seconds", "seconds"), ("_bytes", "bytes"), ("_ratio", "share of 1")];
    endings.iter().find(|(end, _)| name.ends_with(end)).map_or("–", |(_, unit)| *unit)
}

fn table() -> String {
    let mut out = String::from(
        "| metric | type | labels | unit | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for series in TABLE {
        let kind = match series.kind {
            MetricKind::Counter => "counter".to_owned(),
            MetricKind::Gauge => "gauge".to_owned(),
            MetricKind::Histogram(bounds) => {
                let ends = (bounds[0], bounds[bounds.len() - 1]);
                format!("histogram, {} buckets {} … {}", bounds.len(), ends.0, ends.1)
            }
        };
        let labels: Vec<String> = series.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        let (name, unit, help) = (series.name, unit(series), series.help);
        let _ = writeln!(out, "| `{name}` | {kind} | {labels} | {unit} | {help} |");
    }
    out
}

#[test]
fn the_page_of_metrics_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let (head, rest) = page.split_once(BEGIN).expect("the mark before the table");
    let (found, tail) = rest.split_once(END).expect("the mark after the table");
    let expected = table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{expected}{END}{tail}")).expect("written");
        return;
    }
    assert_eq!(found, expected, "docs/metrics.md is old; run the test with UPDATE=1");
}

#[test]
fn the_page_explains_every_value_that_a_label_can_take() {
    let page = include_str!("../../../docs/metrics.md");
    for value in [
        "granted",
        "applied",
        "refused",
        "held",
        "error",
        "alive",
        "revived",
        "lost",
        "released",
        "expired",
        "revoked",
        "reclaimed",
        "transferred",
        "requested",
        "handed-over",
        "timed-out",
        "done",
        "resumed",
        "cut-off",
        "closed",
        "gone",
        "draining",
        "no-room",
        "removed",
        "silent",
        "stuck",
        "queue-full",
        "not-accepted",
        "panic",
        "stop",
        "compare_and_set",
        "read",
        "committed",
        "conflict",
        "ok",
        "acquire",
        "session",
        "list",
        "stream",
        "lease",
        "plugin",
        "confirmed",
        "failed",
        "timeout",
        "panicked",
        "embedded",
        "default",
    ] {
        assert!(page.contains(&format!("`{value}`")), "{value} is not explained");
    }
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for series in TABLE {
        let name = series.name;
        assert!(name.starts_with("tenure_"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), series.kind == MetricKind::Counter, "{name}");
        assert!(series.help.ends_with('.'), "{name}: the meaning is a sentence");
        assert!(!name.contains("_milli") && !name.contains("_micro"), "{name}: base units");
    }
    let mut names: Vec<&str> = TABLE.iter().map(|series| series.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name stands twice");
}
