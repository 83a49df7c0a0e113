//! The runbook of the alerts, in the program: who is on call may have no copy of the manual.

const TEXT: &str = include_str!("../../docs/runbook.md");
/// What each section begins with.
const SECTION: &str = "\n## ";

/// All of it.
#[must_use]
pub fn whole() -> &'static str {
    TEXT
}

/// The names of the alerts with a section, in the order of the sections.
pub fn names() -> impl Iterator<Item = &'static str> {
    sections().filter_map(|section| section.trim_start_matches("## ").lines().next())
}

/// The section of an alert. Capital letters make no difference.
#[must_use]
pub fn section(alert: &str) -> Option<&'static str> {
    let (_, section) =
        names().zip(sections()).find(|(name, _)| name.eq_ignore_ascii_case(alert))?;
    Some(section)
}

fn sections() -> impl Iterator<Item = &'static str> {
    let begins = TEXT.match_indices(SECTION).map(|(at, _)| at + 1);
    begins.map(|at| {
        let rest = &TEXT[at..];
        let end = rest.find(SECTION).map_or(rest.len(), |end| end + 1);
        &rest[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alert_has_its_own_section() {
        let all: Vec<_> = names().collect();
        assert!(all.len() > 20 && all.contains(&"TenureChurnHigh"), "{all:?}");
        for name in all {
            let found = section(&name.to_lowercase()).expect("a section");
            assert!(found.starts_with(&format!("## {name}\n")), "{name}");
            assert_eq!(found.matches("## ").count(), 1, "{name}");
            assert!(found.contains("**Do.**") && whole().contains(found), "{name}");
        }
        assert_eq!(section("TenureNothing"), None);
    }
}
