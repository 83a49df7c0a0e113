//! `tenure top`: what changed most, what needs a person, and what happens now, on one screen.
//!
//! | file | has |
//! | --- | --- |
//! | `choice.rs` | what is counted, in which time, and the order of the rows |
//! | `asking.rs` | the questions to the server |
//! | `state.rs` | what the screen shows, as data |
//! | `update.rs` | what a key press, an answer or an event changes in it |
//! | `view/` | how it is drawn, into a buffer of cells |
//! | `live.rs`, `terminal.rs` | the loop, and the terminal: all that is not pure |
//! | `past.rs` | the latest events from before the start |
//! | `once.rs` | `--once`: a table for scripts |

mod asking;
mod choice;
mod live;
mod once;
mod past;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod update;
mod view;

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};

use self::{
    choice::{By, Choice, MOST_ROWS, SortBy, Window},
    state::State,
    view::Theme,
};
use super::{
    args::duration,
    context::Context,
    exit::{Exit, Failure},
    format::Format,
};
use crate::lease::ChangeKind;

/// The shortest pause between two answers.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(200);
/// The rows of `--once` if nothing else is said.
const ROWS: u32 = 20;

/// Watch which keys, owners and pools change most, what needs a person, and what happens.
///
/// On a terminal, ? shows the keys: enter opens the history of a key, or the leases of an owner or a pool. With --once,
/// one table is printed. Counts have errors: the true one is between the two numbers that are shown.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// What is counted
    #[arg(long, value_enum, value_name = "WHAT", default_value = "keys")]
    by: By,
    /// How far to look back
    #[arg(long, value_enum, default_value = "10m")]
    window: Window,
    /// Only changes of this cause
    #[arg(long, value_parser = PossibleValuesParser::new(ChangeKind::ALL.map(ChangeKind::as_str)))]
    cause: Option<String>,
    /// Only keys with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Order of the rows
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "changes")]
    sort: SortBy,
    /// The other way round
    #[arg(long)]
    reverse: bool,
    /// Pause between two looks, 200ms at least
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Print one table, and end
    #[arg(long, conflicts_with = "interval")]
    once: bool,
    /// With --once: maximum rows (1–100) [default: 20]
    #[arg(
        long,
        requires = "once",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_ROWS))
    )]
    limit: Option<u32>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let span = duration(text)?;
    if span < SHORTEST_INTERVAL { Err("must be 200ms or more".into()) } else { Ok(span) }
}

impl TopArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let choice = Choice {
            by: self.by,
            window: self.window,
            cause: self.cause,
            prefix: self.prefix,
            sort: self.sort,
            is_reversed: self.reverse,
        };
        if choice.prefix.is_some() && choice.by != By::Keys {
            return Err(Failure::Usage("--prefix is only for --by keys".to_owned()));
        }
        if self.once {
            return once::print(context, &choice, self.limit.unwrap_or(ROWS)).await;
        }
        if context.output.format != Format::Table || !terminal::is_usable() {
            let problem =
                "top draws on a terminal: --once prints a table, or a document with --output json";
            return Err(Failure::Usage(problem.to_owned()));
        }
        let state = State::new(context.client.servers(), self.interval, choice);
        live::run(&context.client, state, Theme::new(context.output.styled)).await
    }
}
