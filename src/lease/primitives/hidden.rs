//! Characters that are not seen: they have no width, show as nothing, break a line, or turn the text around.
//!
//! Guarantees: the table has every character with the Unicode property `Default_Ignorable_Code_Point` or
//! `Noncharacter_Code_Point` or of the categories Cc, Cf, Zl and Zp, and those of other categories that show as nothing:
//! U+2800, U+FFFC, U+13441, U+13442, U+16FE4 and U+1D159.
//!
//! Does not guarantee: that two names without such characters look different: a no-break space looks like a space.

use super::{hidden_table::HIDDEN, key::InvalidName};

/// Whether a character is not seen.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let code = u32::from(c);
    let after = HIDDEN.partition_point(|(first, _)| *first <= code);
    after.checked_sub(1).is_some_and(|at| code <= HIDDEN[at].1)
}

/// Checks that every character of a new name is seen. Names from before this rule go on.
///
/// # Errors
/// [`InvalidName::Hidden`].
pub fn check_seen(name: &str) -> Result<(), InvalidName> {
    if name.is_ascii() {
        return Ok(());
    }
    match name.char_indices().find(|(_, c)| is_hidden(*c)) {
        Some((at, c)) => Err(InvalidName::Hidden { at, code: u32::from(c) }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_ranges_are_apart() {
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
        assert!(HIDDEN.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
    }

    #[test]
    fn what_is_not_seen_is_found_and_named() {
        let hidden = "\0\u{7f}\u{9b}\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200b}\u{202e}\u{2028}\u{2066}\u{2800}\
                      \u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{ffff}\u{1d159}\u{e0001}\u{e0072}\u{e01ef}";
        for c in hidden.chars() {
            assert!(is_hidden(c), "U+{:04X}", u32::from(c));
        }
        for c in " \u{a0}~aüßяあ한🦀\u{301}\u{fffd}\u{e000}".chars() {
            assert!(!is_hidden(c), "U+{:04X}", u32::from(c));
        }
        assert_eq!(check_seen("jobs/ü ≥ 🦀 * > ."), Ok(()));
        let fault = check_seen("ü\u{e0041}").expect_err("a tag");
        assert_eq!(fault, InvalidName::Hidden { at: 2, code: 0xe0041 });
        assert!(fault.to_string().contains("U+E0041 at byte 2"), "{fault}");
    }
}
