//! The policy of the manual is what the store needs.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

/// The operations of DynamoDB and its streams that work on tables and items, as the AWS library names them.
const OPERATIONS: [&str; 32] = [
    "batch_execute_statement",
    "batch_get_item",
    "batch_write_item",
    "create_backup",
    "create_global_table",
    "create_table",
    "delete_backup",
    "delete_item",
    "delete_table",
    "describe_backup",
    "describe_continuous_backups",
    "describe_endpoints",
    "describe_limits",
    "describe_stream",
    "describe_table",
    "describe_time_to_live",
    "execute_statement",
    "execute_transaction",
    "get_item",
    "get_records",
    "get_shard_iterator",
    "list_streams",
    "list_tables",
    "put_item",
    "query",
    "scan",
    "tag_resource",
    "transact_get_items",
    "transact_write_items",
    "update_item",
    "update_table",
    "update_time_to_live",
];

/// `GetItem` for `get_item`.
fn action(operation: &str) -> String {
    let words = operation.split('_');
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.map(capital).collect()
}

#[test]
fn the_policy_of_the_manual_names_what_the_store_calls_and_nothing_else() {
    let manual = include_str!("../../../docs/dynamodb.md");
    let (_, rest) = manual.split_once("## Permissions").expect("the section");
    let policy = rest.split("```json").nth(1).and_then(|rest| rest.split("```").next());
    let policy: Value = serde_json::from_str(policy.expect("a policy")).expect("JSON");
    let statements = policy["Statement"].as_array().expect("statements");
    let actions = statements.iter().flat_map(|one| one["Action"].as_array().expect("actions"));
    let allowed: BTreeSet<String> =
        actions.map(|action| action.as_str().expect("text").replacen("dynamodb:", "", 1)).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/dynamodb");
    let files = fs::read_dir(folder).expect("the store");
    let source: String = files
        .map(|file| fs::read_to_string(file.expect("a file").path()).expect("a source"))
        .collect();
    let called = OPERATIONS.into_iter().filter(|name| source.contains(&format!(".{name}()")));
    let called: BTreeSet<String> = called.map(action).collect();
    assert_eq!(allowed, called);
    // Each statement is for one table, whose name is to be filled in.
    for statement in statements {
        let resource = statement["Resource"].as_str().expect("one resource");
        assert!(resource.contains(":table/NAME"), "{resource}");
    }
}
