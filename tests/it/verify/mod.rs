//! `tenure store verify`: with the real program, on real stores, beside coordinators that serve.

mod dynamodb;
mod embedded;
mod nats;
mod settings;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::backup::node::{Place, Said};

/// What the command found: for each check its result and its detail.
pub struct Verified {
    code: Option<i32>,
    whole: Value,
    checks: BTreeMap<String, (String, String)>,
}

impl Verified {
    fn of(said: &Said) -> Self {
        let whole: Value =
            serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let checks = whole["checks"].as_array().expect("checks").iter();
        let checks: Vec<_> = checks
            .map(|one| (text(&one["check"]), (text(&one["result"]), text(&one["detail"]))))
            .collect();
        let named = checks.len();
        let checks: BTreeMap<_, _> = checks.into_iter().collect();
        assert_eq!(checks.len(), named, "each check once: {whole}");
        Self { code: said.code, whole, checks }
    }

    /// Every check is `ok`, but for those that are named.
    #[track_caller]
    pub fn is_well_but(&self, warnings: &[&str]) {
        for (check, (result, detail)) in &self.checks {
            let expected = if warnings.contains(&&**check) { "warning" } else { "ok" };
            assert_eq!(result, expected, "{check}: {detail}");
        }
        let there = warnings.iter().all(|check| self.checks.contains_key(*check));
        assert!(there, "{warnings:?}: {}", self.whole);
        assert_eq!((self.code, &self.whole["ok"]), (Some(0), &Value::Bool(true)));
    }

    /// This check failed, and says so in these words.
    #[track_caller]
    pub fn failed(&self, check: &str, words: &[&str]) {
        self.has(check, "failed", words);
        assert_eq!((self.code, &self.whole["ok"]), (Some(1), &Value::Bool(false)));
    }

    /// This check ended so, and says so in these words.
    #[track_caller]
    pub fn has(&self, check: &str, result: &str, words: &[&str]) {
        let found = self.checks.get(check);
        let (found, detail) = found.unwrap_or_else(|| panic!("no {check}: {}", self.whole));
        assert_eq!(found, result, "{check}: {detail}");
        for word in words {
            assert!(detail.contains(word), "{word:?} is missing in {detail}");
        }
    }
}

/// Runs the command on the store of a place, with more arguments.
pub fn verify_with(place: &Place, more: &[&str]) -> Verified {
    let arguments = [&["store", "verify", "--output", "json"], more].concat();
    Verified::of(&place.tenure(&arguments))
}

pub fn verify(place: &Place) -> Verified {
    verify_with(place, &[])
}

/// Gives a setting (`section.key=value`) another value.
pub fn set(place: &mut Place, setting: &str) {
    let key = setting.split('=').next();
    place.settings.retain(|other| other.split('=').next() != key);
    place.settings.push(setting.to_owned());
}
