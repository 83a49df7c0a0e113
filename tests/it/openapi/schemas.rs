//! Whether a value fits a schema: the part of JSON Schema that the document uses.
//!
//! Does not check `pattern` and `format`. Only requests have patterns, and the coordinator judges those.

use serde_json::{Map, Value, json};

use super::document::text;

/// The schemas of a document.
pub struct Schemas<'a>(pub &'a Value);

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("a list")
}

fn fields(rule: &Value) -> &Map<String, Value> {
    rule.as_object().expect("an object")
}

fn has_type(name: &Value, value: &Value) -> bool {
    match text(name) {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        other => panic!("the schemas have the type {other}, which is not checked"),
    }
}

/// The size that a bound is about: a number itself, the length of a text or of a list.
fn size(keyword: &str, value: &Value) -> Option<i64> {
    let size = match keyword {
        "minimum" | "maximum" => return value.as_i64(),
        "minLength" | "maxLength" => value.as_str()?.chars().count(),
        _ => value.as_array()?.len(),
    };
    i64::try_from(size).ok()
}

impl Schemas<'_> {
    /// Checks that a value fits a schema. `at` is the value's place; an error names the place of the fault.
    pub fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        for (keyword, rule) in fields(schema) {
            if !self.fits(schema, (keyword.as_str(), rule), value, at)? {
                return Err(format!("{at} is {value}, and {keyword} is {rule}"));
            }
        }
        Ok(())
    }

    fn fits(
        &self,
        schema: &Value,
        (keyword, rule): (&str, &Value),
        value: &Value,
        at: &str,
    ) -> Result<bool, String> {
        let bound = || rule.as_i64().expect("a whole number");
        Ok(match keyword {
            // The name of a field is always text.
            "description" | "format" | "pattern" | "propertyNames" => true,
            "$ref" => {
                let place = text(rule).strip_prefix('#').expect("within the document");
                let named = self.0.pointer(place).unwrap_or_else(|| panic!("{place} is missing"));
                self.check(named, value, at).map(|()| true)?
            }
            "type" if rule.is_array() => list(rule).iter().any(|name| has_type(name, value)),
            "type" => has_type(rule, value),
            "enum" => list(rule).contains(value),
            "allOf" => {
                let mut parts = list(rule).iter();
                parts.try_for_each(|part| self.check(part, value, at)).map(|()| true)?
            }
            "oneOf" => {
                let forms = list(rule).iter();
                forms.filter(|form| self.check(form, value, at).is_ok()).count() == 1
            }
            "properties" => {
                for (name, schema) in fields(rule) {
                    if let Some(value) = value.get(name) {
                        self.check(schema, value, &format!("{at}.{name}"))?;
                    }
                }
                true
            }
            "required" => value
                .as_object()
                .is_none_or(|given| list(rule).iter().all(|name| given.contains_key(text(name)))),
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name).is_some();
                for (name, value) in value.as_object().into_iter().flatten() {
                    if *rule == false && !known(name) {
                        return Err(format!("{at}: {name} is not allowed"));
                    }
                    if !known(name) {
                        self.check(rule, value, &format!("{at}.{name}"))?;
                    }
                }
                true
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.check(rule, item, &format!("{at}[{index}]"))?;
                }
                true
            }
            "minimum" | "minLength" | "minItems" => {
                size(keyword, value).is_none_or(|size| size >= bound())
            }
            "maximum" | "maxLength" | "maxItems" => {
                size(keyword, value).is_none_or(|size| size <= bound())
            }
            other => panic!("the schemas have the keyword {other}, which is not checked"),
        })
    }
}

#[test]
fn what_does_not_fit_is_found() {
    let document = json!({ "components": { "schemas": { "Lease": {
        "type": "object",
        "properties": { "key": { "type": "string", "minLength": 1, "maxLength": 3 } },
        "required": ["key"],
    } } } });
    let schemas = Schemas(&document);
    let lease = json!({ "$ref": "#/components/schemas/Lease" });
    let token = json!({ "properties": { "token": { "type": "integer", "minimum": 1 } } });
    let grant = json!({ "allOf": [lease, token] });
    let list = json!({ "type": "array", "items": lease, "maxItems": 2 });
    let word = json!({ "type": ["string", "null"], "enum": ["held", "free", null] });
    let form = json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] });
    let closed = json!({ "properties": { "key": {} }, "additionalProperties": false });
    for (schema, good, bad) in [
        (&lease, json!({ "key": "k", "more": 1 }), json!({})),
        (&lease, json!({ "key": "üüü" }), json!({ "key": "four" })),
        (&lease, json!({ "key": "k" }), json!({ "key": "" })),
        (&lease, json!({ "key": "k" }), json!([])),
        (&grant, json!({ "key": "k", "token": 1 }), json!({ "key": "k", "token": 0 })),
        (&grant, json!({ "key": "k", "token": 1 }), json!({ "token": 1 })),
        (&list, json!([{ "key": "k" }]), json!([{ "key": "k" }, { "key": 1 }])),
        (&list, json!([]), json!([{ "key": "a" }, { "key": "b" }, { "key": "c" }])),
        (&word, json!(null), json!("offered")),
        (&form, json!(1), json!(null)),
        (&closed, json!({ "key": "k" }), json!({ "key": "k", "more": 1 })),
    ] {
        assert_eq!(schemas.check(schema, &good, "it"), Ok(()));
        assert!(schemas.check(schema, &bad, "it").is_err(), "{bad} fits {schema}");
    }
    let wrong = json!([{ "key": "a" }, { "key": 1 }]);
    let why = schemas.check(&list, &wrong, "it").expect_err("a key is a text");
    assert!(why.starts_with("it[1].key is 1"), "{why}");
}
