//! `tenure nodes`: lists the coordinators on the server's store.

use clap::Args;

use super::{
    Context, Exit, Failure,
    output::{dash, shown, span},
};
use crate::client::Node;

const HEADING: [&str; 6] = ["URL", "STATE", "LEASES", "RUNS_OUT_IN", "VERSION", "THIS"];

/// List the coordinators on the server's store.
#[derive(Clone, Debug, Args)]
pub struct NodesArgs {}

impl NodesArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = context.client.nodes().await?;
        context.output.list(&found, &found.nodes, &HEADING, row)?;
        Ok(Exit::Done)
    }
}

fn row(node: &Node) -> Vec<String> {
    vec![
        shown(&node.url),
        shown(&node.state),
        node.leases.to_string(),
        span(node.runs_out_in_ms),
        shown(&node.version),
        if node.this { "yes".to_owned() } else { dash() },
    ]
}
