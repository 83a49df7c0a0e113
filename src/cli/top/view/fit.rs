//! Text that fits into columns of a terminal.

use ratatui::text::Span;

/// What stands for the text that is left out.
const CUT: &str = "…";

/// Where a text is cut if it is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// In its middle: names differ at their beginnings and ends.
    Middle,
    End,
}

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text in exactly so many columns: cut, or with blanks behind it.
pub(super) fn fit(text: &str, room: usize, cut: Cut) -> String {
    let whole = width(text);
    if whole <= room {
        return format!("{text}{:blanks$}", "", blanks = room - whole);
    }
    let Some(left) = room.checked_sub(1) else { return String::new() };
    let behind = match cut {
        Cut::Middle => left / 2,
        Cut::End => 0,
    };
    let head = head(text.chars(), left - behind);
    let tail: String = self::head(text.chars().rev(), behind).chars().rev().collect();
    let short = format!("{head}{CUT}{tail}");
    // A wide character may have left a column free.
    let blanks = room.saturating_sub(width(&short));
    format!("{short}{:blanks$}", "")
}

/// As many characters as fit.
fn head(chars: impl Iterator<Item = char>, room: usize) -> String {
    let mut text = String::new();
    for c in chars {
        text.push(c);
        if width(&text) > room {
            text.pop();
            break;
        }
    }
    text
}

/// The text in lines of so many columns, broken between words.
pub(super) fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_exactly_the_columns_that_it_is_given() {
        for (text, room, cut, fitted) in [
            ("jobs/1", 8, Cut::Middle, "jobs/1  "),
            ("jobs/team-0/report-17", 11, Cut::Middle, "jobs/…rt-17"),
            ("jobs/team-0/report-17", 11, Cut::End, "jobs/team-…"),
            ("abc", 3, Cut::End, "abc"),
            ("abcd", 1, Cut::Middle, "…"),
            ("abcd", 0, Cut::End, ""),
            ("", 2, Cut::End, "  "),
            ("日本語日本語", 6, Cut::End, "日本… "),
            ("日本語日本語", 6, Cut::Middle, "日…語 "),
        ] {
            let found = fit(text, room, cut);
            assert_eq!((found.as_str(), width(&found)), (fitted, room), "{text} in {room}");
        }
    }

    #[test]
    fn lines_are_broken_between_words_and_a_long_word_stands_alone() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a incomprehensible b", 5), ["a", "incomprehensible", "b"]);
        assert!(wrap("  ", 5).is_empty());
    }
}
