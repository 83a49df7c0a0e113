//! Colours: a state that needs a person is red, one that passes by itself is yellow.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use clap::ValueEnum;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// When the output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Also in a file or a pipe
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// Whether stdout gets colours.
    pub(super) fn is_on(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
                !plain && !dumb && io::stdout().is_terminal()
            }
        }
    }
}

/// A heading.
pub(super) fn heading(text: &str) -> String {
    paint(BOLD, text)
}

/// The text of a cell, in the colour that its column gives to it.
pub(super) fn cell(column: &str, text: &str) -> String {
    let style = match column.to_ascii_lowercase().as_str() {
        "state" => of_state(text),
        "fences" if text.contains("failed") => Some(RED),
        "fence_failed" => Some(RED),
        "end" => of_event(text),
        _ => None,
    };
    style.map_or_else(|| text.to_owned(), |style| paint(style, text))
}

/// A severity, in its colour.
pub(super) fn severity(severity: &str, text: &str) -> String {
    let style = match severity {
        "none" => GREEN,
        "warning" => YELLOW,
        _ => RED,
    };
    paint(style, text)
}

/// The kind of an event, in its colour.
pub(super) fn event(kind: &str, text: &str) -> String {
    of_event(kind).map_or_else(|| text.to_owned(), |style| paint(style, text))
}

fn of_event(kind: &str) -> Option<&'static str> {
    match kind {
        "granted" | "reclaimed" | "transferred" => Some(GREEN),
        "expired" | "revoked" | "fence-failed" | "reset" => Some(RED),
        _ => None,
    }
}

fn of_state(state: &str) -> Option<&'static str> {
    match state {
        "held" | "alive" => Some(GREEN),
        "cooling" | "offered" | "draining" => Some(YELLOW),
        "fencing" | "dead" => Some(RED),
        "free" | "drained" => Some(DIM),
        _ => None,
    }
}

fn paint(style: &str, text: &str) -> String {
    format!("\u{1b}[{style}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_its_colour_and_other_words_have_none() {
        assert_eq!(cell("STATE", "held"), "\u{1b}[32mheld\u{1b}[0m");
        assert_eq!(cell("state", "fencing"), "\u{1b}[31mfencing\u{1b}[0m");
        assert_eq!(cell("FENCES", "power (failed)"), "\u{1b}[31mpower (failed)\u{1b}[0m");
        for (column, text) in [("OWNER", "held"), ("STATE", "new"), ("FENCES", "power")] {
            assert_eq!(cell(column, text), text);
        }
        assert_eq!(event("granted", "granted   "), "\u{1b}[32mgranted   \u{1b}[0m");
        assert_eq!(event("pinned", "pinned"), "pinned");
        assert_eq!(cell("END", "expired"), "\u{1b}[31mexpired\u{1b}[0m");
        assert_eq!(cell("END", "released"), "released");
        for (word, style) in [("none", GREEN), ("warning", YELLOW), ("critical", RED)] {
            assert_eq!(severity(word, "x"), paint(style, "x"));
        }
    }
}
