//! What is counted, in which time, and in which order it is shown.

use std::cmp::Reverse;

use clap::ValueEnum;

use crate::{
    client::{TopFilter, TopRow},
    lease::ChangeKind,
};

/// The most rows that the server returns.
pub(super) const MOST_ROWS: u32 = 100;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// Changes of each key
    Keys,
    /// Changes of what each owner held
    Owners,
    /// Changes of the keys of each pool
    Pools,
}

/// How far to look back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Window {
    /// The last minute
    #[value(name = "1m")]
    One,
    /// The last ten minutes
    #[value(name = "10m")]
    Ten,
    /// The last hour
    #[value(name = "60m")]
    Sixty,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SortBy {
    /// What changed most comes first
    Changes,
    /// By name
    Name,
    /// By pool, and in a pool what changed most first
    Pool,
}

impl By {
    const ALL: [Self; 3] = [Self::Keys, Self::Owners, Self::Pools];

    /// Its name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Owners => "owners",
            Self::Pools => "pools",
        }
    }

    /// The heading of the column of names.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Keys => "KEY",
            Self::Owners => "OWNER",
            Self::Pools => "POOL",
        }
    }

    /// The next one, or the one before.
    pub(super) fn turned(self, is_back: bool) -> Self {
        turned(&Self::ALL, self, is_back)
    }
}

impl Window {
    /// Its name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "1m",
            Self::Ten => "10m",
            Self::Sixty => "60m",
        }
    }

    pub(super) fn next(self) -> Self {
        turned(&[Self::One, Self::Ten, Self::Sixty], self, false)
    }
}

impl SortBy {
    /// What people read.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Name => "name",
            Self::Pool => "pool",
        }
    }

    /// The next order. Only keys have pools.
    pub(super) fn next(self, by: By) -> Self {
        match self {
            Self::Changes => Self::Name,
            Self::Name if by == By::Keys => Self::Pool,
            Self::Name | Self::Pool => Self::Changes,
        }
    }
}

/// The item after this one, or before it, in a circle.
fn turned<T: Copy + PartialEq>(all: &[T], one: T, is_back: bool) -> T {
    let at = all.iter().position(|other| *other == one).unwrap_or(0);
    let step = if is_back { all.len() - 1 } else { 1 };
    all[(at + step) % all.len()]
}

/// What is asked for, and how it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) by: By,
    pub(super) window: Window,
    /// Only changes of this cause.
    pub(super) cause: Option<String>,
    /// Only keys with this prefix.
    pub(super) prefix: Option<String>,
    pub(super) sort: SortBy,
    pub(super) is_reversed: bool,
}

impl Choice {
    /// The question to the server.
    pub(super) fn filter(&self, limit: u32) -> TopFilter {
        TopFilter {
            window: Some(self.window.name().to_owned()),
            by: Some(self.by.name().to_owned()),
            cause: self.cause.clone(),
            prefix: self.prefix.clone().filter(|_| self.by == By::Keys),
            limit: Some(limit),
        }
    }

    /// Turns to the next cause, or to the one before. Between the last and the first, all causes count.
    pub(super) fn turn_cause(&mut self, is_back: bool) {
        let causes: Vec<Option<&str>> = [None]
            .into_iter()
            .chain(ChangeKind::ALL.iter().map(|kind| Some(kind.as_str())))
            .collect();
        self.cause = turned(&causes, self.cause.as_deref(), is_back).map(str::to_owned);
    }

    /// The rows in the chosen order.
    pub(super) fn sorted<'a>(&self, rows: &'a [TopRow]) -> Vec<&'a TopRow> {
        let mut rows: Vec<&TopRow> = rows.iter().collect();
        let most = |row: &TopRow| Reverse((row.at_least, row.at_most));
        // Sorting keeps the order of equal rows, so the comparison that counts least comes first.
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        if self.sort != SortBy::Name {
            rows.sort_by_key(|row| most(row));
        }
        if self.sort == SortBy::Pool {
            rows.sort_by(|a, b| a.pool.cmp(&b.pool));
        }
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown if nothing else is said.
    fn usual() -> Choice {
        Choice {
            by: By::Keys,
            window: Window::Ten,
            cause: None,
            prefix: Some("jobs/".into()),
            sort: SortBy::Changes,
            is_reversed: false,
        }
    }

    fn row(name: &str, pool: &str, at_least: u64) -> TopRow {
        let (name, pool) = (name.to_owned(), Some(pool.to_owned()));
        TopRow { name, pool, at_least, at_most: at_least, ..TopRow::default() }
    }

    #[test]
    fn rows_are_in_the_chosen_order() {
        let rows = [row("b", "q", 2), row("a", "q", 3), row("c", "p", 2)];
        let names = |sort, is_reversed| {
            let choice = Choice { sort, is_reversed, ..usual() };
            choice.sorted(&rows).iter().map(|row| row.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(SortBy::Changes, false), ["a", "b", "c"]);
        assert_eq!(names(SortBy::Changes, true), ["c", "b", "a"]);
        assert_eq!(names(SortBy::Name, false), ["a", "b", "c"]);
        assert_eq!(names(SortBy::Pool, false), ["c", "a", "b"]);
    }

    #[test]
    fn each_key_press_turns_to_the_next_and_all_come_round() {
        assert_eq!(By::Pools.turned(false), By::Keys);
        assert_eq!(By::Keys.turned(true), By::Pools);
        assert_eq!(Window::Sixty.next(), Window::One);
        assert_eq!(SortBy::Name.next(By::Keys), SortBy::Pool);
        assert_eq!(SortBy::Name.next(By::Owners), SortBy::Changes);
        let mut choice = usual();
        choice.turn_cause(true);
        assert_eq!(choice.cause.as_deref(), Some("forgotten"));
        choice.turn_cause(false);
        assert_eq!(choice.cause, None);
        choice.turn_cause(false);
        assert_eq!(choice.cause.as_deref(), Some("granted"));
    }

    #[test]
    fn only_keys_have_a_prefix() {
        let filter = |by| Choice { by, ..usual() }.filter(20);
        assert_eq!(filter(By::Keys).prefix.as_deref(), Some("jobs/"));
        assert_eq!(filter(By::Pools).prefix, None);
        assert_eq!(filter(By::Pools).by.as_deref(), Some("pools"));
    }
}
