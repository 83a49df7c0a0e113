//! Patterns of names: an exact name, or a beginning and a `*`.

use std::fmt;

use crate::lease::{MAX_OWNER_BYTES, Owner};

/// What stands for the principal's name in the pattern of an owner.
const OWN_NAME: &str = "{name}";

/// A name, or all names with a common beginning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The name, or the beginning.
    pub(super) text: Box<str>,
    /// Whether it is a beginning.
    pub(super) open: bool,
}

impl Pattern {
    /// Reads `name`, `beginning*`, or `*` for all names.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if let Some(at) = text.find(char::is_control) {
            return Err(format!("holds a control character at byte {at}"));
        }
        let (name, open) = match text.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (text, false),
        };
        if name.contains('*') {
            return Err(format!(
                "{text:?} has a * that is not at its end: only one, at the end, is allowed"
            ));
        }
        Ok(Self { text: name.into(), open })
    }

    /// Whether the pattern is for this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        if self.open { name.starts_with(&*self.text) } else { name == &*self.text }
    }

    /// Whether both patterns are for some name.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.open, other.open) {
            (_, false) => self.matches(&other.text),
            (false, true) => other.matches(&self.text),
            (true, true) => {
                self.text.starts_with(&*other.text) || other.text.starts_with(&*self.text)
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.open { "*" } else { "" })
    }
}

/// The pattern of the owners that a principal may act as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPattern {
    /// As the file has it, with `{name}` for the principal's name.
    pub(super) written: Box<str>,
    pub(super) pattern: Pattern,
}

impl OwnerPattern {
    /// The pattern for the principal with this name.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(written: &str, principal: &str) -> Result<Self, String> {
        if written.replace(OWN_NAME, "").contains(['{', '}']) {
            return Err(format!("{written:?} has braces, and only {OWN_NAME} is known"));
        }
        // The principal's own name may have a *, which then means itself.
        let Pattern { text, open } = Pattern::parse(written)?;
        let text: Box<str> = text.replace(OWN_NAME, principal).into();
        let judged = Owner::new(&text).map(drop);
        if let Err(fault) =
            judged.or_else(|fault| if open && text.is_empty() { Ok(()) } else { Err(fault) })
        {
            return Err(format!(
                "{written:?} stands for no owner, which has at most {MAX_OWNER_BYTES} bytes: it {fault}"
            ));
        }
        Ok(Self { written: written.into(), pattern: Pattern { text, open } })
    }

    /// The patterns of a principal whose table has none: its name, and what begins with its name and a slash.
    ///
    /// # Errors
    /// What is wrong with them, for people.
    pub fn default_of(principal: &str) -> Result<Vec<Self>, String> {
        ["{name}", "{name}/*"].iter().map(|written| Self::parse(written, principal)).collect()
    }

    /// Whether the pattern is for this owner.
    #[must_use]
    pub fn matches(&self, owner: &str) -> bool {
        self.pattern.matches(owner)
    }

    /// Whether both patterns are for some owner.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.pattern.overlaps(&other.pattern)
    }
}

impl fmt::Display for OwnerPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_pattern_is_a_name_or_a_beginning() {
        assert!(pattern("w").matches("w") && !pattern("w").matches("w1"));
        assert!(pattern("w-*").matches("w-") && pattern("w-*").matches("w-1"));
        assert!(!pattern("w-*").matches("w") && !pattern("w-*").matches("x-w-1"));
        assert!(pattern("*").matches("") && pattern("*").matches("any"));
        assert!(Pattern::parse("a*b").unwrap_err().contains("not at its end"));
        assert!(Pattern::parse("a**").unwrap_err().contains("not at its end"));
        assert!(Pattern::parse("").unwrap_err().contains("empty"));
        assert!(Pattern::parse("a\n").unwrap_err().contains("byte 1"));
    }

    #[test]
    fn an_owner_pattern_stands_for_the_principals_own_name() {
        let own = OwnerPattern::default_of("w*{").unwrap();
        assert!(own[0].matches("w*{") && !own[0].matches("w1{") && own[1].matches("w*{/1"));
        assert!(OwnerPattern::parse("{user}", "w").unwrap_err().contains("only {name}"));
        assert!(OwnerPattern::parse(&"x".repeat(257), "w").unwrap_err().contains("257 bytes"));
        assert!(OwnerPattern::parse("*", "w").unwrap().matches("anybody"));
    }

    proptest! {
        #[test]
        fn two_patterns_overlap_where_some_name_is_of_both(
            one in "[ab]{0,3}", one_open: bool, two in "[ab]{0,3}", two_open: bool,
        ) {
            let one = Pattern { text: one.into(), open: one_open };
            let two = Pattern { text: two.into(), open: two_open };
            // The longer text is a name of both, if any is.
            let longer = if one.text.len() > two.text.len() { &one.text } else { &two.text };
            prop_assert_eq!(one.overlaps(&two), one.matches(longer) && two.matches(longer));
            prop_assert_eq!(one.overlaps(&two), two.overlaps(&one));
        }
    }
}
