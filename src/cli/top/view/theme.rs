//! Styles. Each also differs without colours, or stands beside a word that says the same.

use ratatui::style::{Color, Modifier, Style};

/// How text looks.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::top) struct Theme {
    has_colours: bool,
}

impl Theme {
    pub(in crate::cli::top) const fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    /// Headings.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Bars, and the chosen row.
    pub(super) fn reversed(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What needs a person.
    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What may need a person soon, or passes by itself.
    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    /// The style of a severity of the API.
    pub(super) fn of_severity(self, severity: &str) -> Style {
        match severity {
            "none" => self.good(),
            "warning" => self.warning(),
            _ => self.bad(),
        }
    }

    /// The style of the state of a lease.
    pub(super) fn of_state(self, state: &str) -> Style {
        match state {
            "fencing" => self.bad(),
            "cooling" | "offered" => self.warning(),
            _ => self.plain(),
        }
    }

    /// The style of a kind of event.
    pub(super) fn of_event(self, kind: &str) -> Style {
        match kind {
            "granted" | "reclaimed" | "transferred" => self.good(),
            "expired" | "revoked" | "fence-failed" | "reset" => self.coloured(Color::Red),
            _ => self.plain(),
        }
    }

    fn coloured(self, color: Color) -> Style {
        if self.has_colours { Style::new().fg(color) } else { Style::new() }
    }
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Painted {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Painted {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}
