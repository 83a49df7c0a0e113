//! `tenure ls`: lists leases.

use clap::Args;

use super::{
    Context, Exit, Failure,
    output::{Format, dash, shown, span, talk},
};
use crate::client::{LeaseFilter, LeaseView, Leases};

/// The largest page that the server returns, in rows.
const PAGE: u32 = 1000;
const HEADING: [&str; 6] = ["KEY", "STATE", "OWNER", "TOKEN", "EXPIRES_IN", "WAITERS"];

/// List leases, ordered by key.
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// Only keys with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Only leases of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only leases in this state: free, held, offered, cooling or fencing
    #[arg(long)]
    state: Option<String>,
    /// Only leases kept by the session with this digest
    #[arg(long, value_name = "DIGEST")]
    session: Option<String>,
    /// Maximum rows (1–1000)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE)))]
    limit: Option<u32>,
    /// Continue after this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// List all pages
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl LsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut filter = LeaseFilter {
            prefix: self.prefix,
            owner: self.owner,
            pool: None,
            state: self.state,
            session: self.session,
            limit: if self.all { Some(PAGE) } else { self.limit },
            after: self.after,
            before: None,
        };
        let output = &context.output;
        let mut found = Leases::default();
        loop {
            let page = context.client.leases(&filter).await?;
            // Lines are printed without waiting for the last page.
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
            talk(&format!("there are more: use --after '{}', or --all", shown(next)));
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
