//! `tenure mcp`: a server of the Model Context Protocol (MCP) on standard input and output, by which an AI agent
//! claims, keeps and gives back leases.
//!
//! Guarantees: heartbeats keep what was claimed, between the agent's calls too. When the client closes standard input,
//! or a signal ends the process, calls that wait are given up, and everything that is held is released, as far as
//! servers answer within 5 s. A claim that the client cancels leaves no lease behind. Standard output has messages of
//! the protocol and nothing else. No message has a `lease_id`.
//!
//! Does not guarantee: that an agent stops when it is told to. The resource must refuse lower tokens.
//!
//! The messages are written here and not by the protocol's library (`rmcp`): a server of tools needs four methods, and
//! the library brings a second description of JSON documents and a dozen crates.

mod answer;
mod arguments;
mod call;
mod claim;
mod end_of_lease;
mod extend;
mod hand_over;
mod handshake;
mod holder;
mod lines;
mod list;
mod loss;
mod message;
mod release;
mod server;
#[cfg(test)]
mod tests;
mod tools;
mod view;
mod wait;
mod who_has;

use std::{sync::Arc, time::Duration};

use clap::Args;
use tokio::time::timeout;

use self::{holder::Holder, server::Server};
use super::{
    Context, Exit, Failure,
    args::{default_owner, duration},
    output::talk,
};
use crate::{lease::Owner, worker::signals};

/// How long the process takes to give back what it holds. Clients kill a server that takes longer.
const END: Duration = Duration::from_secs(5);
/// How long a client may take to read the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serve leases to an AI agent: an MCP server on standard input and output.
///
/// An MCP client starts this command for each agent. Its tools claim, extend, release and hand over leases, say who has
/// a key, and wait. Heartbeats keep the leases between the agent's calls. At the end of standard input all leases are
/// released. See docs/agents.md.
#[derive(Clone, Debug, Args)]
pub struct McpArgs {
    /// Owner of the leases; each agent must have a different name [default: HOSTNAME:PID#RANDOM]
    #[arg(long, env = "TENURE_OWNER")]
    owner: Option<String>,
    /// How long a lease lasts without a heartbeat, unless the agent says how long
    #[arg(long, value_parser = duration, default_value = "15s")]
    ttl: Duration,
}

impl McpArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let owner = self.owner.unwrap_or_else(default_owner);
        if let Err(why) = Owner::new(&owner) {
            return Err(Failure::Usage(format!("--owner: {why}")));
        }
        let signals = signals::received().map_err(anyhow::Error::from)?;
        let holder = Arc::new(Holder::new(context.client.clone(), owner, self.ttl));
        let (out, written) = lines::outgoing();
        let mut server = Server::new(holder, out);
        server.serve(lines::incoming(), signals).await;
        if timeout(END, server.end()).await.is_err() {
            talk("some leases could not be released in time: they run out by themselves");
        }
        // The answers end, so that the thread which writes them does.
        drop(server);
        let _ = timeout(LAST_ANSWERS, written).await;
        Ok(Exit::Done)
    }
}
