//! `tenure sessions`: lists living sessions, destroys one, or drains one.

use clap::{Args, Subcommand};

use super::{
    Context, Exit, Failure,
    args::secret,
    output::{dash, plain, shown, span},
};
use crate::client::{SessionView, Sessions};

const HEADING: [&str; 6] = ["SESSION", "OWNER", "LEASES", "EXPIRES_IN", "POOL", "CREATED"];

/// List living sessions, destroy one, or drain one.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only sessions of this owner
    #[arg(long)]
    owner: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// End a session and all its leases
    Destroy {
        /// Secret id of the session, better as `@FILE` or `-` (standard input); without it, drain the session's owner
        #[arg(env = "TENURE_SESSION_ID", hide_env_values = true, value_parser = secret)]
        id: String,
    },
    /// Ask a session to hand over all its leases
    Drain {
        /// Secret id of the session, better as `@FILE` or `-` (standard input); without it, drain the session's owner
        #[arg(env = "TENURE_SESSION_ID", hide_env_values = true, value_parser = secret)]
        id: String,
    },
}

impl SessionsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(action) = self.action {
            let answer = match action {
                Action::Destroy { id } => context.client.destroy_session(&id).await?,
                Action::Drain { id } => context.client.drain_session(&id).await?,
            };
            context.answer(&answer)?;
            return Ok(Exit::Done);
        }
        let mut found = Sessions::default();
        loop {
            let after = found.next.take();
            let page = context.client.sessions(self.owner.as_deref(), after.as_deref()).await?;
            found.sessions.extend(page.sessions);
            found.next = page.next;
            if found.next.is_none() {
                break;
            }
        }
        context.output.list(&found, &found.sessions, &HEADING, row)?;
        Ok(Exit::Done)
    }
}

fn row(session: &SessionView) -> Vec<String> {
    let other = |name: &str| {
        session.other.get(name).filter(|value| !value.is_null()).map_or_else(dash, plain)
    };
    vec![
        shown(&session.digest),
        shown(&session.owner),
        session.leases.as_ref().map_or_else(dash, |leases| leases.count.to_string()),
        span(session.expires_in_ms),
        other("pool"),
        other("created_at"),
    ]
}
