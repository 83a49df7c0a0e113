//! `tenure sessions`: lists living sessions; opens, keeps, drains or destroys one.

mod open;

use clap::{Args, Subcommand};

use self::open::OpenArgs;
use super::{
    Context, Exit, Failure,
    args::secret,
    format::Format,
    output::{dash, plain, shown, span},
    promise,
};
use crate::{
    client::{SessionView, Sessions},
    clock::boottime_ms,
};

const HEADING: [&str; 6] = ["SESSION", "OWNER", "LEASES", "EXPIRES_IN", "POOL", "CREATED"];

/// List living sessions; open, keep, drain or destroy one.
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
    Open(OpenArgs),
    /// Send one heartbeat of a session, and print how long it lives from now on, and its notices
    Heartbeat {
        /// Secret id of the session, better as `@FILE` or `-` (standard input)
        #[arg(env = "TENURE_SESSION_ID", hide_env_values = true, value_parser = secret)]
        id: String,
        /// How far the work has come, in any words
        #[arg(long)]
        progress: Option<String>,
    },
    /// End a session and all its leases
    Destroy {
        /// Secret id of the session, better as `@FILE` or `-` (standard input). Without the id, drain the session's
        /// owner with `tenure drain`
        #[arg(env = "TENURE_SESSION_ID", hide_env_values = true, value_parser = secret)]
        id: String,
    },
    /// Ask a session to hand over all its leases
    Drain {
        /// Secret id of the session, better as `@FILE` or `-` (standard input). Without the id, drain the session's
        /// owner with `tenure drain`
        #[arg(env = "TENURE_SESSION_ID", hide_env_values = true, value_parser = secret)]
        id: String,
    },
}

impl SessionsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(action) = self.action {
            return action.run(context).await;
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
        context.output.list("sessions", &found, &found.sessions, &HEADING, row)?;
        Ok(Exit::Done)
    }

    /// The formats in which a single field is printed.
    pub(super) fn fields(&self) -> &'static [Format] {
        if matches!(self.action, Some(Action::Open(_))) { &[Format::SessionId] } else { &[] }
    }
}

impl Action {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = &context.client;
        match self {
            Self::Open(args) => return args.run(context).await,
            Self::Heartbeat { id, progress } => {
                let asked = boottime_ms();
                let alive = client.heartbeat_session(&id, progress.as_deref()).await?;
                let printed = promise::at_printing(&alive, asked)?;
                let mut rows = promise::rows(&printed, &["valid_for_ms", "notices"]);
                rows.push(("leases".to_owned(), alive.leases.count.to_string()));
                context.output.record(&printed, &rows)?;
            }
            Self::Destroy { id } => context.answer(&client.destroy_session(&id).await?)?,
            Self::Drain { id } => context.answer(&client.drain_session(&id).await?)?,
        }
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
