//! The value of the key: which slot began last, and what became of it.

use serde::{Deserialize, Serialize};

use crate::clock::rfc3339;

/// The form of the record.
const FORM: u32 = 1;
/// The longest value of a lease, in bytes.
const MOST: usize = 16 * 1024;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was started. If nobody holds the lease, its host died or lost the lease.
    Running,
    /// The program exited with 0.
    Succeeded,
    /// The program exited with another code, or could not be started.
    Failed,
}

/// What the key's value says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The form of this record.
    cron: u32,
    /// Every slot up to this one is over: it was begun, or it lay before the first host came.
    pub slot_ms: u64,
    /// The same, for people.
    slot: String,
    /// What became of it; without, nothing has run yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The exit code, as shells report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Which host ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Under which token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// What the program left for the next run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

impl Record {
    /// Every slot up to this moment is over, and nothing has run.
    #[must_use]
    pub fn from(slot_ms: u64) -> Self {
        Self {
            cron: FORM,
            slot_ms,
            slot: rfc3339(slot_ms),
            outcome: None,
            exit: None,
            owner: None,
            token: None,
            result: None,
        }
    }

    /// The program of this slot is about to be started. What the run before left stays.
    #[must_use]
    pub fn begins(&self, slot_ms: u64, owner: &str, token: u64) -> Self {
        let (outcome, owner) = (Some(Outcome::Running), Some(owner.to_owned()));
        let result = self.result.clone();
        Self { outcome, owner, token: Some(token), result, ..Self::from(slot_ms) }
    }

    /// The program has ended, and left this for the next run.
    #[must_use]
    pub fn ended(self, exit: u8, left: Option<String>) -> Self {
        let outcome = if exit == 0 { Outcome::Succeeded } else { Outcome::Failed };
        let result = left.or(self.result);
        Self { outcome: Some(outcome), exit: Some(exit), result, ..self }
    }

    /// Whether a program was started, and nobody said how it ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.outcome == Some(Outcome::Running)
    }

    /// The slot, for people.
    #[must_use]
    pub fn slot(&self) -> &str {
        &self.slot
    }

    /// Reads the value of a key; `None` for a key without one.
    ///
    /// # Errors
    /// A message for people if something else wrote the value.
    pub fn read(value: Option<&str>) -> Result<Option<Self>, String> {
        let Some(value) = value else { return Ok(None) };
        let read = serde_json::from_str(value).ok();
        let read = read.filter(|record: &Self| record.cron == FORM);
        read.map(Some)
            .ok_or_else(|| "its value is not that of a schedule: choose another key".to_owned())
    }

    /// Whether all of it fits into a value.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.json().len() <= MOST
    }

    /// The value to write. What a run left is missing from it if it does not fit.
    #[must_use]
    pub fn to_value(&self) -> String {
        if self.fits() { self.json() } else { Self { result: None, ..self.clone() }.json() }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_became_of_the_slot() {
        let began = Record::from(1_000).begins(60_000, "a:1", 7);
        let text = began.to_value();
        let expected = r#"{"cron":1,"slot_ms":60000,"slot":"1970-01-01T00:01:00.000Z","outcome":"running","owner":"a:1","token":7}"#;
        assert_eq!(text, expected);
        assert_eq!(Record::read(Some(&text)), Ok(Some(began.clone())));
        let ended = began.ended(0, Some("left".into()));
        let next = ended.begins(120_000, "b:1", 9).ended(3, None);
        assert_eq!(
            (ended.outcome, next.outcome),
            (Some(Outcome::Succeeded), Some(Outcome::Failed))
        );
        assert_eq!((next.exit, next.result.as_deref()), (Some(3), Some("left")));
    }

    #[test]
    fn a_value_of_something_else_is_refused_and_so_is_one_that_is_too_long() {
        assert_eq!(Record::read(None), Ok(None));
        for other in ["", "offset 7", "{}", r#"{"cron":2,"slot_ms":1,"slot":""}"#] {
            assert!(Record::read(Some(other)).is_err(), "{other}");
        }
        let long = Record::from(1).ended(0, Some("\u{1}".repeat(4_000)));
        assert!(!long.fits());
        let read = Record::read(Some(&long.to_value())).expect("ours").expect("a record");
        assert_eq!((read.exit, read.result), (Some(0), None));
    }
}
