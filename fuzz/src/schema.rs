//! Whether a body is what `openapi.json` allows: the part of JSON Schema that the document uses for bodies.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../openapi.json")).expect("JSON"));

/// By path.
static BODIES: LazyLock<BTreeMap<&'static str, &'static Value>> = LazyLock::new(|| {
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    let body = |operations: &'static Value| {
        operations["post"].pointer("/requestBody/content/application~1json/schema")
    };
    paths.iter().filter_map(|(path, operations)| Some((path.as_str(), body(operations)?))).collect()
});

/// A body that was accepted must be allowed.
pub fn check(path: &str, body: &Value) {
    let schema = BODIES.get(path).unwrap_or_else(|| panic!("{path} is not in openapi.json"));
    if let Err(why) = fits(schema, body) {
        panic!("{path} accepts what openapi.json does not allow: {why}: {body}");
    }
}

fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let fields = schema.as_object().expect("a schema");
    for (name, rule) in fields {
        let good = match name.as_str() {
            "$ref" => {
                let pointer = rule.as_str().and_then(|to| to.strip_prefix('#')).expect("a pointer");
                fits(DOCUMENT.pointer(pointer).expect("the schema that is meant"), value)?;
                true
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is(name, value)),
                name => is(name, value),
            },
            "enum" => rule.as_array().expect("a list").contains(value),
            "oneOf" => one(rule).filter(|schema| fits(schema, value).is_ok()).count() == 1,
            "anyOf" => one(rule).any(|schema| fits(schema, value).is_ok()),
            "allOf" => {
                one(rule).try_for_each(|schema| fits(schema, value))?;
                true
            }
            "required" => value.as_object().is_none_or(|object| {
                one(rule).all(|name| object.contains_key(name.as_str().expect("a name")))
            }),
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = rule.get(name) {
                        fits(schema, value).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = fields.get("properties").and_then(Value::as_object);
                let mut names = value.as_object().into_iter().flatten().map(|(name, _)| name);
                *rule != false || names.all(|name| known.is_some_and(|k| k.contains_key(name)))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.clone().try_for_each(|item| fits(rule, item))?;
                true
            }
            "minimum" => value.as_f64().is_none_or(|number| rule.as_f64() <= Some(number)),
            "maximum" => value.as_f64().is_none_or(|number| rule.as_f64() >= Some(number)),
            "minLength" => length(value).is_none_or(|length| rule.as_u64() <= Some(length)),
            "maxLength" => length(value).is_none_or(|length| rule.as_u64() >= Some(length)),
            "minItems" => items(value).is_none_or(|count| rule.as_u64() <= Some(count)),
            "maxItems" => items(value).is_none_or(|count| rule.as_u64() >= Some(count)),
            "description" | "default" | "format" | "title" | "pattern" => true,
            other => panic!("{other} is a rule that this reader does not know"),
        };
        if !good {
            return Err(format!("{name} {rule}"));
        }
    }
    Ok(())
}

fn one(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.as_array().expect("a list").iter()
}

fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}

fn items(value: &Value) -> Option<u64> {
    value.as_array().map(|list| list.len() as u64)
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("{other} is no type"),
    }
}
