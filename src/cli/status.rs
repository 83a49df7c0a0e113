//! `tenure status`: what needs a person, and how many keys are in each state.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use super::{
    attention::{self, Rank, lasts, subject},
    colour,
    context::Context,
    exit::{Exit, Failure},
    figures::{causes, count},
    output::{pairs, shown},
    when::brief,
};
use crate::client::{Attention, Spans, Status};

/// Show what needs a person, with the command that helps, and how many keys are in each state.
///
/// The exit code is 1 if something needs a person. Severity `critical` means that something stands still or is not
/// protected, `warning` that it may soon. docs/status.md explains each entry.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// The lowest severity that makes the exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "warning")]
    fail_on: FailOn,
}

/// What makes the exit code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Whatever needs a person
    Warning,
    /// Only what stands still or is not protected
    Critical,
    /// Nothing: the exit code is 0 if the server answers
    Never,
}

impl FailOn {
    fn exit(self, rank: Rank) -> Exit {
        let least = match self {
            Self::Warning => Rank::Warning,
            Self::Critical => Rank::Critical,
            Self::Never => return Exit::Done,
        };
        if rank < least { Exit::Done } else { Exit::Other }
    }
}

impl StatusArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let status = context.client.status().await?;
        let output = &context.output;
        if output.format.is_json() {
            output.json(&status)?;
        } else {
            output.text(&text(&status, output.styled))?;
        }
        Ok(self.fail_on.exit(Rank::of(&status.severity)))
    }
}

/// First what needs a person, then the figures.
fn text(status: &Status, styled: bool) -> String {
    let painted = |severity: &str, text: String| {
        if styled { colour::severity(severity, &text) } else { text }
    };
    let entries = status.attention.len() as u64 + status.more;
    let mut text = painted(&status.severity, attention::summary(entries)) + "\n";
    for entry in &status.attention {
        let severity = painted(&entry.severity, shown(&entry.severity).to_uppercase());
        text.push_str(&of_entry(entry, &severity));
    }
    if status.more > 0 {
        let _ = writeln!(text, "\n{} more: the server lists no more of them", status.more);
    }
    text.push('\n');
    text.push_str(&pairs(&rows(status), styled));
    text
}

/// What it is, what it means, and what helps.
fn of_entry(entry: &Attention, severity: &str) -> String {
    let mut head = format!("{severity}  {}", shown(&entry.kind));
    let (subject, lasts) = (subject(entry), lasts(entry));
    for part in [subject, lasts].into_iter().filter(|part| part != "-") {
        let _ = write!(head, "  {part}");
    }
    let mut text = format!("\n{head}\n  {}\n", shown(&entry.says));
    if let Some(help) = &entry.help {
        let _ = writeln!(text, "  help: {}", shown(help));
    }
    text
}

fn rows(status: &Status) -> Vec<(String, String)> {
    let (store, node) = (&status.store, &status.this_node);
    let nodes = &store.nodes;
    let keys = store.keys.as_ref().map_or_else(
        || "not counted yet".to_owned(),
        |keys| {
            let age = if keys.age_ms > 0 {
                format!("; counted {} ago", brief(keys.age_ms))
            } else {
                String::new()
            };
            format!(
                "{} held, {} offered, {} fencing, {} cooling, {} free; in any state, {} with a failed fence{age}",
                keys.held,
                keys.offered,
                keys.fencing,
                keys.cooling,
                keys.free,
                keys.fences_failed,
            )
        },
    );
    let ready = if node.ready {
        "ready".to_owned()
    } else {
        let reasons: Vec<String> = node.reasons.iter().map(|reason| shown(reason)).collect();
        format!("not ready ({})", reasons.join("; "))
    };
    let measured = &node.last_minute;
    let row = |name: &str, value: String| (name.to_owned(), value);
    vec![
        row("store", format!("{}, {}", shown(&store.kind), shown(&store.health))),
        row(
            "nodes",
            format!("{} alive, {} drained, {} dead", nodes.alive, nodes.drained, nodes.dead),
        ),
        row("keys", keys),
        row("last minute", causes(&status.last_minute)),
        row(
            "this node",
            format!("{}, version {}, {ready}", shown(&node.url), shown(&node.version)),
        ),
        row(
            "  has",
            format!(
                "{}, {} waiting, {} writes waiting",
                count(node.leases, "lease", "leases"),
                node.waiting,
                node.writes_waiting
            ),
        ),
        row("  time without an owner", spans(&measured.vacancy)),
        row("  time held", spans(&measured.hold)),
        row("  lateness of expiry", spans(&measured.lateness)),
    ]
}

/// `3 in the last minute: p50 1ms, p99 640ms, longest 633ms`.
fn spans(spans: &Spans) -> String {
    if spans.count == 0 {
        return "none in the last minute".to_owned();
    }
    format!(
        "{} in the last minute: p50 {}, p99 {}, longest {}",
        spans.count,
        brief(spans.p50_ms),
        brief(spans.p99_ms),
        brief(spans.longest_ms)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{KeyCounts, NodeStatus, StoreStatus};

    fn failed() -> Attention {
        Attention {
            kind: "fence-failed".into(),
            severity: "critical".into(),
            says: "the fence of \"disks/7\" failed".into(),
            help: Some("tenure fence-skip --reason WHY disks/7".into()),
            key: Some("disks/7".into()),
            for_ms: Some(107_598),
            ..Attention::default()
        }
    }

    #[test]
    fn what_needs_a_person_comes_first_with_what_helps() {
        let keys = KeyCounts {
            held: 197,
            fencing: 1,
            fences_failed: 1,
            age_ms: 412,
            ..KeyCounts::default()
        };
        let store = StoreStatus {
            kind: "nats".into(),
            health: "ready".into(),
            keys: Some(keys),
            ..StoreStatus::default()
        };
        let hidden = Attention {
            kind: "stopping".into(),
            severity: "warning".into(),
            ..Attention::default()
        };
        let status = Status {
            severity: "critical".into(),
            attention: vec![failed(), hidden],
            more: 2,
            store,
            ..Status::default()
        };
        let told = text(&status, false);
        let begin = "4 things need a person\n\n\
                     CRITICAL  fence-failed  disks/7  1m 47s\n  \
                     the fence of \"disks/7\" failed\n  \
                     help: tenure fence-skip --reason WHY disks/7\n\n\
                     WARNING  stopping\n";
        assert!(told.starts_with(begin), "{told}");
        let counts = "197 held, 0 offered, 1 fencing, 0 cooling, 0 free; in any state, 1 with a failed fence; counted 412ms ago";
        assert!(told.contains(counts) && told.contains("\n2 more"), "{told}");
        assert!(text(&status, true).contains("\u{1b}[31mCRITICAL\u{1b}[0m"));
    }

    #[test]
    fn a_node_that_is_not_ready_says_why_and_nothing_is_made_up() {
        let node = NodeStatus { reasons: vec!["draining".into()], ..NodeStatus::default() };
        let status = Status { severity: "none".into(), this_node: node, ..Status::default() };
        let told = text(&status, false);
        assert!(told.starts_with("nothing needs a person\n"), "{told}");
        for part in ["not counted yet", "not ready (draining)", "none in the last minute"] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }

    #[test]
    fn the_exit_code_says_whether_something_needs_a_person() {
        for (fail_on, codes) in
            [(FailOn::Warning, [0, 1, 1]), (FailOn::Critical, [0, 0, 1]), (FailOn::Never, [0; 3])]
        {
            let ranks = [Rank::Well, Rank::Warning, Rank::Critical];
            assert_eq!(ranks.map(|rank| fail_on.exit(rank).code()), codes, "{fail_on:?}");
        }
    }
}
