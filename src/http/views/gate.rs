//! §8: the condition that a caller's own transaction can be gated on.

use serde_json::{Map, Value, json};

use crate::{
    lease::{Key, KeyState, View},
    store::Gate,
};

/// The condition in the form of the store's own requests; null for a key that is not held.
pub fn gate(key: &Key, view: &View, gate: Option<Gate>) -> Value {
    if view.state != KeyState::Held {
        return Value::Null;
    }
    match gate {
        None => json!({
            "kind": "check",
            "path": "/v1/check",
            "body": { "key": key.as_str(), "token": view.token.0 },
        }),
        Some(Gate::DynamoDb { table, key, expression, names, values }) => {
            let text = |pairs: Vec<(String, String)>| -> Map<String, Value> {
                pairs.into_iter().map(|(name, value)| (name, json!({ "S": value }))).collect()
            };
            let names: Map<String, Value> =
                names.into_iter().map(|(name, value)| (name, value.into())).collect();
            let values: Map<String, Value> = values
                .into_iter()
                .map(|(name, kind, value)| (name, json!({ kind: value })))
                .collect();
            json!({
                "kind": "dynamodb",
                "condition_check": {
                    "TableName": table,
                    "Key": text(key),
                    "ConditionExpression": expression,
                    "ExpressionAttributeNames": names,
                    "ExpressionAttributeValues": values,
                },
            })
        }
        Some(Gate::Nats { stream, publish_prefix, subject, expected_last_sequence }) => json!({
            "kind": "nats",
            "stream": stream,
            "publish_prefix": publish_prefix,
            "headers": {
                "Nats-Expected-Last-Subject-Sequence": expected_last_sequence.to_string(),
                "Nats-Expected-Last-Subject-Sequence-Subject": subject,
            },
        }),
    }
}
