//! `tenure ls`: many leases.

use clap::Args;

use super::{
    Context, Exit, Failure,
    output::{Format, dash, shown, span, talk},
};
use crate::client::{LeaseFilter, LeaseView, Leases};

/// Largest page that the server gives.
const PAGE: u32 = 1000;
const HEADING: [&str; 6] = ["KEY", "STATE", "OWNER", "TOKEN", "EXPIRES_IN", "WAITERS"];

/// List leases in the order of their keys.
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// Only keys that start with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only leases of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only leases in this state: free, held, offered, cooling or fencing
    #[arg(long)]
    state: Option<String>,
    /// Only leases that the session of this digest keeps
    #[arg(long, value_name = "DIGEST")]
    session: Option<String>,
    /// At most so many, 1 to 1000
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE)))]
    limit: Option<u32>,
    /// Go on from here: the cursor that the page before ended with
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// All pages
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl LsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut filter = LeaseFilter {
            prefix: self.prefix,
            owner: self.owner,
            state: self.state,
            session: self.session,
            limit: if self.all { Some(PAGE) } else { self.limit },
            after: self.after,
        };
        let output = &context.output;
        let mut found = Leases::default();
        loop {
            let page = context.client.leases(&filter).await?;
            // Lines need not wait for the last page.
            if output.format == Format::Jsonl {
                output.list(&(), &page.leases, &HEADING, row)?;
            } else {
                found.leases.extend(page.leases);
            }
            found.next.clone_from(&page.next);
            if !self.all || page.next.is_none() {
                break;
            }
            filter.after = page.next;
        }
        if output.format != Format::Jsonl {
            output.list(&found, &found.leases, &HEADING, row)?;
        }
        if let (Some(next), true) = (&found.next, output.format != Format::Json) {
            talk(&format!("there are more: --after '{}', or --all", shown(next)));
        }
        Ok(Exit::Done)
    }
}

fn row(lease: &LeaseView) -> Vec<String> {
    vec![
        shown(&lease.key),
        shown(&lease.state),
        lease.owner.as_deref().map_or_else(dash, shown),
        lease.token.map_or_else(dash, |token| token.to_string()),
        span(lease.expires_in_ms),
        lease.waiters.map_or_else(dash, |count| count.to_string()),
    ]
}
