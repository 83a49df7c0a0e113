//! What the screen shows: data alone.

use std::{collections::VecDeque, time::Duration};

use super::{
    asking::{Detail, Found, Question},
    choice::{By, Choice, MOST_ROWS},
};
use crate::{
    cli::attention::subject,
    client::{Event, LeaseFilter, Status, Top, TopRow},
};

/// The most events that are kept: more than any terminal has lines.
pub(super) const EVENTS: usize = 500;
/// The states in which somebody holds a key or waits for it.
const NOT_FREE: &str = "held,offered,fencing,cooling";

/// Everything that the screen shows.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Where the answers come from.
    pub(super) servers: String,
    /// The pause between two answers.
    pub(super) interval: Duration,
    pub(super) choice: Choice,
    /// The opened pages, the visible one last.
    pages: Vec<Page>,
    /// Whether the help is shown.
    pub(super) has_help: bool,
    pub(super) status: Option<Status>,
    /// Why the latest status is not known.
    pub(super) problem: Option<String>,
    pub(super) top: Shown<Top>,
    pub(super) detail: Shown<Found>,
    /// The latest events, the oldest first.
    pub(super) events: VecDeque<Event>,
    /// Why no events arrive.
    pub(super) silence: Option<String>,
}

/// An answer for the present question.
#[derive(Clone, Debug)]
pub(super) enum Shown<T> {
    Awaited,
    Known(T),
    Refused(String),
}

/// A page, and the row that is chosen on it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) kind: Kind,
    /// The place of the chosen row.
    pub(super) at: usize,
    /// Its name: rows change places.
    name: Option<String>,
}

/// What a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Top,
    Attention,
    /// The leases of an owner.
    OfOwner(String),
    /// The leases of a pool.
    OfPool(String),
    /// What became of a key.
    History(String),
    Events,
}

impl<T> Shown<T> {
    pub(super) fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Awaited | Self::Refused(_) => None,
        }
    }
}

impl Page {
    fn of(kind: Kind) -> Self {
        Self { kind, at: 0, name: None }
    }
}

impl State {
    pub(super) fn new(servers: String, interval: Duration, choice: Choice) -> Self {
        Self {
            servers,
            interval,
            choice,
            pages: vec![Page::of(Kind::Top)],
            has_help: false,
            status: None,
            problem: None,
            top: Shown::Awaited,
            detail: Shown::Awaited,
            events: VecDeque::new(),
            silence: None,
        }
    }

    /// The visible page.
    pub(super) fn page(&self) -> &Page {
        self.pages.last().unwrap_or(&FIRST)
    }

    /// Opens a page on top of the others.
    pub(super) fn open(&mut self, kind: Kind) {
        if self.page().kind != kind {
            self.pages.push(Page::of(kind));
            self.detail = Shown::Awaited;
        }
    }

    /// Closes the visible page. The first one stays.
    pub(super) fn close(&mut self) {
        if self.pages.len() > 1 {
            self.pages.pop();
            self.detail = Shown::Awaited;
        }
    }

    /// What the server must be asked for the visible page.
    pub(super) fn question(&self) -> Question {
        let leases = |filter: LeaseFilter| {
            let state = Some(NOT_FREE.to_owned());
            Detail::Leases(LeaseFilter { state, limit: Some(MOST_ROWS), ..filter })
        };
        let detail = match &self.page().kind {
            Kind::Top | Kind::Attention | Kind::Events => None,
            Kind::OfOwner(owner) => {
                Some(leases(LeaseFilter { owner: Some(owner.clone()), ..LeaseFilter::default() }))
            }
            Kind::OfPool(pool) => {
                Some(leases(LeaseFilter { pool: Some(pool.clone()), ..LeaseFilter::default() }))
            }
            Kind::History(key) => Some(Detail::History(key.clone())),
        };
        Question { top: self.choice.filter(MOST_ROWS), detail }
    }

    /// What changed most, in the chosen order.
    pub(super) fn ranked(&self) -> Vec<&TopRow> {
        self.top.known().map_or_else(Vec::new, |top| self.choice.sorted(&top.rows))
    }

    /// The names of the rows of the visible page.
    fn names(&self) -> Vec<String> {
        match (&self.page().kind, self.detail.known()) {
            (Kind::Top, _) => self.ranked().iter().map(|row| row.name.clone()).collect(),
            (Kind::Attention, _) => {
                let status = self.status.iter();
                let entries = status.flat_map(|status| &status.attention);
                entries.map(|entry| format!("{} {}", entry.kind, subject(entry))).collect()
            }
            (_, Some(Found::Leases(found))) => {
                found.leases.iter().map(|lease| lease.key.clone()).collect()
            }
            (_, Some(Found::History(found))) => {
                found.tenures.iter().map(|tenure| tenure.token.to_string()).collect()
            }
            (_, None) => Vec::new(),
        }
    }

    /// Goes up or down by rows, as far as there are any.
    pub(super) fn go(&mut self, rows: isize) {
        let names = self.names();
        let Some(page) = self.pages.last_mut() else { return };
        page.at = page.at.saturating_add_signed(rows).min(names.len().saturating_sub(1));
        page.name = names.get(page.at).cloned();
    }

    /// Finds the chosen row again after the rows have changed. As long as the first row is chosen by nobody, it is
    /// whatever comes first.
    pub(super) fn settle(&mut self) {
        let names = self.names();
        let Some(page) = self.pages.last_mut() else { return };
        let found = page.name.as_ref().and_then(|name| names.iter().position(|one| one == name));
        page.at = found.unwrap_or(page.at).min(names.len().saturating_sub(1));
    }

    /// The page that the chosen row leads to.
    pub(super) fn leads_to(&self) -> Option<Kind> {
        let at = self.page().at;
        let (kind, detail) = (&self.page().kind, self.detail.known());
        match (kind, detail) {
            (Kind::Top, _) => {
                let name = self.ranked().get(at)?.name.clone();
                Some(match self.choice.by {
                    By::Keys => Kind::History(name),
                    By::Owners => Kind::OfOwner(name),
                    By::Pools => Kind::OfPool(name),
                })
            }
            (Kind::Attention, _) => {
                let entry = self.status.as_ref()?.attention.get(at)?;
                let key = entry.key.clone().map(Kind::History);
                let owner = || entry.owner.clone().map(Kind::OfOwner);
                key.or_else(|| entry.pool.clone().map(Kind::OfPool)).or_else(owner)
            }
            (_, Some(Found::Leases(found))) => {
                found.leases.get(at).map(|lease| Kind::History(lease.key.clone()))
            }
            _ => None,
        }
    }

    /// Keeps an event.
    pub(super) fn keep(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }
}

/// What is visible without any page.
static FIRST: Page = Page { kind: Kind::Top, at: 0, name: None };
