//! `[store.dynamodb]`: a table of DynamoDB.

use std::time::Duration;

use super::{
    super::{
        table::section,
        units::DAY,
        urls::{HTTP, has_scheme},
    },
    bounds::REQUEST_TIMEOUTS,
};

section! {
    /// The section `[store.dynamodb]`: the table, and how it is reached.
    pub struct DynamoDb {
        /// Table. No other application may write to it. 3 to 255 letters, digits, _, - and .
        table: String = "tenure".into(), if odd_table;
        /// Region. Empty: from the environment (AWS_REGION, the profile, the instance), which also provides the
        /// credentials.
        region: String = String::new();
        /// URL of the service. Empty: that of the region. For DynamoDB Local and similar services.
        endpoint: String = String::new(), if not_http;
        /// Whether to create the table, with on-demand capacity, if it does not exist.
        create_table: bool = false;
        /// Time after which the outcome of a request counts as unknown.
        request_timeout: Duration = Duration::from_secs(2), in REQUEST_TIMEOUTS;
        /// How often to poll for changes by other coordinators.
        poll_interval: Duration = Duration::from_millis(200),
            in Duration::from_millis(10)..=Duration::from_secs(60);
        /// How long to collect changes before writing them to the history together.
        flush_interval: Duration = Duration::from_millis(20), in Duration::ZERO..=Duration::from_secs(1);
        /// How long to keep the history of changes, for event streams that resume.
        history: Duration = DAY, in Duration::from_secs(60)..=366 * DAY;
    }
}

fn odd_table(dynamodb: &DynamoDb) -> Option<&'static str> {
    let table = &dynamodb.table;
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let odd = !(3..=255).contains(&table.len()) || !table.chars().all(named);
    odd.then_some("must be 3 to 255 letters, digits, _, - and .")
}

fn not_http(dynamodb: &DynamoDb) -> Option<&'static str> {
    let url = &dynamodb.endpoint;
    let odd = !url.is_empty() && !has_scheme(url, &HTTP);
    odd.then_some("must be empty or a URL such as http://127.0.0.1:8000")
}
