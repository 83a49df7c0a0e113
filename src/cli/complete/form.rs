//! The words as each shell reads them.

use clap::ValueEnum;

use crate::lease::is_hidden;

/// A shell whose script asks for words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// The word alone, without what stands before the last break in it
    Bash,
    /// `word:help`
    Zsh,
    /// The word, a tab, the help
    Fish,
}

/// A word that may stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) word: String,
    /// What it means; may be empty.
    pub(super) help: String,
}

impl Candidate {
    /// A word that is a name.
    pub(super) fn named(word: impl Into<String>) -> Self {
        Self { word: word.into(), help: String::new() }
    }
}

impl Form {
    /// A line for the shell. `typed` is what the word replaces.
    pub(super) fn line(self, word: &str, help: &str, typed: &str, breaks: &str) -> String {
        match self {
            Self::Bash => {
                let kept = typed.rfind(|c: char| breaks.contains(c)).map_or(0, |at| at + 1);
                format!("{}\n", word.get(kept..).unwrap_or(word))
            }
            Self::Zsh if help.is_empty() => format!("{}\n", word.replace(':', "\\:")),
            Self::Zsh => format!("{}:{help}\n", word.replace(':', "\\:")),
            Self::Fish if help.is_empty() => format!("{word}\n"),
            Self::Fish => format!("{word}\t{help}\n"),
        }
    }
}

/// Whether every shell takes the word as it is: a name with a blank, a quote or a `$` is not offered.
pub(super) fn is_plain(word: &str) -> bool {
    // Some letters are not seen.
    let begins =
        |c: char| c.is_alphanumeric() && !is_hidden(c) || matches!(c, '_' | '-' | '/' | '.');
    let goes_on = |c: char| begins(c) || matches!(c, ':' | '@' | '%' | '+' | ',' | '=' | '#');
    word.starts_with(begins) && word.chars().all(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_gets_its_form() {
        let line = |form: Form| form.line("w:12", "help", "w:1", " :=");
        assert_eq!(
            [Form::Bash, Form::Zsh, Form::Fish].map(line),
            ["12\n", "w\\:12:help\n", "w:12\thelp\n"]
        );
        assert_eq!(Form::Bash.line("--owner=w", "", "--owner=", "="), "w\n");
        assert_eq!(Form::Bash.line("jobs/1", "", "jo", ":="), "jobs/1\n");
    }

    #[test]
    fn nothing_is_offered_that_a_shell_would_run() {
        for word in ["jobs/1", "--state", "ops@vm#0a1b", "jobs/ü", "--owner=w:1", "."] {
            assert!(is_plain(word), "{word}");
        }
        for word in [
            "",
            "a b",
            "$(reboot)",
            "a;b",
            "`x`",
            "'",
            "~root",
            "#x",
            "a*",
            "a\u{202e}b",
            "=x",
            "a\u{3164}",
            "\u{ffa0}b",
            "a\u{115f}",
        ] {
            assert!(!is_plain(word), "{word}");
        }
    }
}
