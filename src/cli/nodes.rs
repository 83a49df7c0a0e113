//! `tenure nodes`: lists the coordinators on the server's store.

use clap::Args;

use super::{
    Context, Exit, Failure,
    format::Format,
    output::{dash, shown, span},
};
use crate::client::Node;

const HEADING: [&str; 7] = ["URL", "STATE", "LEASES", "RUNS_OUT_IN", "VERSION", "THIS", "NOTE"];
/// The further column of a wide table.
const INCARNATION: &str = "INCARNATION";

/// List the coordinators on the server's store.
///
/// A coordinator that was restarted has one more incarnation. Those that are dead or drained are left out.
#[derive(Clone, Debug, Args)]
pub struct NodesArgs {
    /// Dead and drained incarnations too
    #[arg(long)]
    all: bool,
}

impl NodesArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut found = context.client.nodes().await?;
        found.nodes.retain(|node| self.all || !is_gone(node));
        let is_wide = context.output.format == Format::Wide;
        let mut heading = HEADING.to_vec();
        heading.extend(is_wide.then_some(INCARNATION));
        let row = |node: &Node| row(node, is_wide);
        context.output.list("nodes", &found, &found.nodes, &heading, row)?;
        Ok(Exit::Done)
    }
}

/// Whether it is an incarnation that is over.
fn is_gone(node: &Node) -> bool {
    matches!(node.state.as_str(), "dead" | "drained")
}

fn row(node: &Node, is_wide: bool) -> Vec<String> {
    let mut cells = vec![
        shown(&node.url),
        shown(&node.state),
        node.leases.to_string(),
        span(node.runs_out_in_ms),
        shown(&node.version),
        if node.this { "yes".to_owned() } else { dash() },
        note(node),
    ];
    cells.extend(is_wide.then(|| shown(&node.incarnation)));
    cells
}

/// What a person must put right.
fn note(node: &Node) -> String {
    let notes = [
        node.address_shared.then_some("another node has this address"),
        node.rules_differ.then_some("its policies or plugins differ"),
        node.access_differs.then_some("its access file differs"),
    ];
    let notes: Vec<&str> = notes.into_iter().flatten().collect();
    if notes.is_empty() { dash() } else { notes.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_left_out_and_what_is_wrong_is_told() {
        let node = |state: &str| Node { state: state.into(), ..Node::default() };
        assert!(["dead", "drained"].iter().all(|state| is_gone(&node(state))));
        assert!(!["alive", "draining", "new"].iter().any(|state| is_gone(&node(state))));
        let odd = Node {
            address_shared: true,
            rules_differ: true,
            access_differs: true,
            incarnation: "7".into(),
            ..node("alive")
        };
        let cells = row(&odd, true);
        assert_eq!(cells.len(), HEADING.len() + 1);
        assert!(cells[6].contains("address") && cells[6].contains("policies"), "{cells:?}");
        assert!(cells[6].contains("access file"), "{cells:?}");
        assert_eq!(cells[7], "7");
    }
}
