//! `tenure ls`: lists leases.

mod columns;
mod live;
mod query;
mod sort;

use std::time::Duration;

use clap::{Args, ValueEnum};

use self::{
    columns::{columns, row},
    query::{PAGE, Query},
    sort::{SortBy, sorted},
};
use super::{
    context::Context,
    exit::{Exit, Failure},
    format::Format,
    output::{shown, talk},
};
use crate::{
    cli::{args::duration, when},
    client::{LeaseFilter, LeaseView, Leases},
};

/// The rows that are listed if nothing else is said.
const ROWS: u32 = 100;

/// List leases, ordered by key.
///
/// Free keys are left out, unless --all-states or --state free asks for them. With --output wide, there are columns for
/// pool, node and session too. HELD_FOR is counted by the clocks of the server and of this machine.
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// Only keys with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Only leases of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only leases in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Leases in every state, free keys too
    #[arg(long, conflicts_with = "state")]
    all_states: bool,
    /// Only leases kept by the session with this digest
    #[arg(long, value_name = "DIGEST")]
    session: Option<String>,
    /// Only keys of this pool
    #[arg(long)]
    pool: Option<String>,
    /// Maximum rows (1–1000); with --sort, these are the first ones of all [default: 100]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE)))]
    limit: Option<u32>,
    /// Continue after this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// List all pages
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Order of the rows; all pages are read first
    #[arg(long, value_enum, value_name = "COLUMN", conflicts_with = "after")]
    sort: Option<SortBy>,
    /// With --sort: the other way round
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// List again and again, each time after this pause
    #[arg(
        long,
        short,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = duration
    )]
    watch: Option<Duration>,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Nobody holds it
    Free,
    /// An owner holds it
    Held,
    /// It is kept for the owner to whom it was handed over
    Offered,
    /// Closed by a lock-delay
    Cooling,
    /// Closed until a fence is confirmed
    Fencing,
}

impl LsArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let output = &context.output;
        if let Some(pause) = self.watch {
            if !matches!(output.format, Format::Table | Format::Wide) {
                let problem =
                    "ls --watch draws a table; programs follow changes with `tenure watch`";
                return Err(Failure::Usage(problem.to_owned()));
            }
            return live::follow(context, pause, async || {
                self.listed(context).await.map(|(leases, _)| leases)
            })
            .await;
        }
        if output.format == Format::Jsonl && self.sort.is_none() {
            // Lines are printed without waiting for the last page.
            let print = |leases: Vec<LeaseView>| {
                leases.iter().try_for_each(|lease| output.json(lease)).map_err(Failure::from)
            };
            let next = self.query().each_page(&context.client, print).await?;
            tell_of_more(next.as_deref());
            return Ok(Exit::Done);
        }
        let (leases, next) = self.listed(context).await?;
        let found = Leases { leases, next, previous: None };
        let columns = columns(output.format == Format::Wide, &found.leases);
        let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
        let now = when::now_ms();
        let cells = |lease: &LeaseView| row(&columns, lease, now);
        output.list("leases", &found, &found.leases, &headings, cells)?;
        if output.format != Format::Json {
            tell_of_more(found.next.as_deref());
        }
        Ok(Exit::Done)
    }

    /// The leases in the order that was asked for, and the cursor of the next page.
    async fn listed(&self, context: &Context) -> Result<(Vec<LeaseView>, Option<String>), Failure> {
        let mut found = Vec::new();
        let collect = |leases: Vec<LeaseView>| {
            found.extend(leases);
            Ok(())
        };
        let next = self.query().each_page(&context.client, collect).await?;
        let Some(by) = self.sort else { return Ok((found, next)) };
        let mut found = sorted(found, by, self.reverse);
        if let Some(limit) = self.limit {
            found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok((found, None))
    }

    fn query(&self) -> Query {
        let every = self.all || self.sort.is_some();
        let state = self.state.and_then(|state| state.to_possible_value());
        Query {
            filter: LeaseFilter {
                prefix: self.prefix.clone(),
                owner: self.owner.clone(),
                state: state.map(|state| state.get_name().to_owned()),
                session: self.session.clone(),
                pool: self.pool.clone(),
                limit: None,
                after: self.after.clone(),
                before: None,
            },
            hides_free: self.state.is_none() && !self.all_states,
            most: (!every).then(|| self.limit.unwrap_or(ROWS)),
        }
    }
}

fn tell_of_more(next: Option<&str>) {
    if let Some(next) = next {
        talk(&format!("there are more: use --after '{}', or --all", shown(next)));
    }
}
