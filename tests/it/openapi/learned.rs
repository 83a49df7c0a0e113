//! What only a coordinator knows: ids, tokens and URLs, which an example shows and a real answer replaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
};

use serde_json::{Map, Value, json};

/// Fields whose values the coordinator chooses. Where two examples show the same value, the real values are the same.
const CHOSEN: [&str; 13] = [
    "access_digest",
    "cursor",
    "digest",
    "id",
    "incarnation",
    "lease_id",
    "next",
    "node",
    "session",
    "source",
    "store_id",
    "token",
    "url",
];
/// Fields whose values depend on when the answer was given.
const TIMES: [&str; 14] = [
    "acquired_at",
    "age_ms",
    "at",
    "began",
    "covers_ms",
    "created_at",
    "deadline_ms",
    "ended",
    "ends_in_ms",
    "expires_in_ms",
    "held_ms",
    "time",
    "took_ms",
    "valid_for_ms",
];

/// The real values, each by the value that stands for it in the examples.
#[derive(Clone, Debug, Default)]
pub struct Learned(BTreeMap<String, Value>);

impl Learned {
    /// A value of an example with what was learned.
    pub fn real(&self, shown: &Value) -> Value {
        match shown {
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), self.real(value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.real(item)).collect()),
            scalar => self.0.get(&scalar.to_string()).unwrap_or(scalar).clone(),
        }
    }

    /// Compares an answer with its example. They have the same fields and the same values, but for those that the
    /// coordinator chooses, which are learned, and those that depend on the time.
    pub fn compare(&mut self, shown: &Value, real: &Value) -> Result<(), String> {
        // An answer that does not fit teaches nothing.
        let mut learned = self.clone();
        learned.match_value("", shown, real, "the answer")?;
        *self = learned;
        Ok(())
    }

    fn match_value(
        &mut self,
        field: &str,
        shown: &Value,
        real: &Value,
        at: &str,
    ) -> Result<(), String> {
        match (shown, real) {
            (Value::Object(shown), Value::Object(real)) => {
                let names = |fields: &Map<String, Value>| -> BTreeSet<String> {
                    fields.keys().cloned().collect()
                };
                let (expected, found) = (names(shown), names(real));
                if expected != found {
                    return Err(format!("{at} has the fields {found:?}, not {expected:?}"));
                }
                for (name, shown) in shown {
                    self.match_value(name, shown, &real[name], &format!("{at}.{name}"))?;
                }
                Ok(())
            }
            (Value::Array(shown), Value::Array(real)) if shown.len() == real.len() => {
                for (index, (shown, real)) in shown.iter().zip(real).enumerate() {
                    self.match_value(field, shown, real, &format!("{at}[{index}]"))?;
                }
                Ok(())
            }
            _ if self.match_scalar(field, shown, real) => Ok(()),
            _ => Err(format!("{at} is {real}; the example shows {shown}")),
        }
    }

    fn match_scalar(&mut self, field: &str, shown: &Value, real: &Value) -> bool {
        if shown.is_null() || discriminant(shown) != discriminant(real) {
            shown == real
        } else if CHOSEN.contains(&field) {
            *self.0.entry(shown.to_string()).or_insert_with(|| real.clone()) == *real
        } else {
            TIMES.contains(&field) || shown == real
        }
    }
}

#[test]
fn an_answer_differs_from_its_example_only_in_what_the_coordinator_chooses() {
    let shown =
        json!({ "token": 412, "state": "held", "node": null, "expires_in_ms": 5, "leases": [1] });
    let real =
        json!({ "token": 7, "state": "held", "node": null, "expires_in_ms": 4, "leases": [1] });
    let mut learned = Learned::default();
    for (field, other) in [
        ("token", json!("7")),
        ("state", json!("free")),
        ("node", json!("http://n")),
        ("expires_in_ms", json!(null)),
        ("leases", json!([])),
        ("leases", json!([2])),
        ("more", json!(1)),
    ] {
        let mut wrong = real.clone();
        wrong[field] = other;
        let why = learned.compare(&shown, &wrong).expect_err(field);
        assert!(why.contains(field), "{why}");
    }
    assert_eq!(learned.real(&json!({ "token": 412 })), json!({ "token": 412 }));
    assert_eq!(learned.compare(&shown, &real), Ok(()));
    assert_eq!(learned.real(&json!([{ "token": 412 }, 413])), json!([{ "token": 7 }, 413]));
    let again = json!({ "token": 8 });
    learned.compare(&json!({ "token": 412 }), &again).expect_err("the same token stands for 7");
    assert_eq!(learned.compare(&json!({ "token": 413 }), &again), Ok(()));
}
