//! What needs a person, as text.

use super::{
    output::{dash, shown},
    when,
};
use crate::client::Attention;

/// How bad it is. A severity that this version does not know counts as the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Well,
    Warning,
    Critical,
}

impl Rank {
    /// The rank of a severity of the API.
    pub(super) fn of(severity: &str) -> Self {
        match severity {
            "none" => Self::Well,
            "warning" => Self::Warning,
            _ => Self::Critical,
        }
    }
}

/// What an entry is about: a key, or else a pool, a node, an owner or a session.
pub(super) fn subject(entry: &Attention) -> String {
    let named = [&entry.key, &entry.pool, &entry.node, &entry.owner, &entry.session];
    named.into_iter().flatten().next().map_or_else(dash, |name| shown(name))
}

/// For how long it has been so.
pub(super) fn lasts(entry: &Attention) -> String {
    entry.for_ms.map_or_else(dash, when::brief)
}

/// `3 things need a person`.
pub(super) fn summary(entries: u64) -> String {
    match entries {
        0 => "nothing needs a person".to_owned(),
        1 => "1 thing needs a person".to_owned(),
        _ => format!("{entries} things need a person"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_about_the_most_particular_thing_that_it_names() {
        let mut entry = Attention { owner: Some("w".into()), ..Attention::default() };
        assert_eq!((subject(&entry), lasts(&entry)), ("w".to_owned(), "-".to_owned()));
        entry.pool = Some("disks".into());
        assert_eq!(subject(&entry), "disks");
        entry.key = Some("disks/7\n".into());
        entry.for_ms = Some(107_598);
        assert_eq!(
            (subject(&entry), lasts(&entry)),
            ("disks/7\\n".to_owned(), "1m 47s".to_owned())
        );
        assert_eq!(subject(&Attention::default()), "-");
    }

    #[test]
    fn an_unknown_severity_is_not_taken_lightly() {
        assert!(
            Rank::of("none") < Rank::of("warning") && Rank::of("warning") < Rank::of("critical")
        );
        assert_eq!(Rank::of("fatal"), Rank::Critical);
        assert_eq!(
            [0, 1, 2].map(summary)[1..],
            ["1 thing needs a person", "2 things need a person"]
        );
    }
}
