//! Conditions for the writes of applications.

/// A condition that an application adds to its own write into the same store. The write then fails unless the
/// tenure is still the current one (§8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A `ConditionCheck` in a `TransactWriteItems`.
    DynamoDb {
        table: String,
        /// The key of the item: attribute names and string values.
        key: Vec<(String, String)>,
        expression: String,
        names: Vec<(String, String)>,
        /// The `ExpressionAttributeValues`: the name, the type (`S` or `N`), the value.
        values: Vec<(String, &'static str, String)>,
    },
    /// Headers of a JetStream publish into the bucket's stream.
    Nats {
        stream: String,
        /// The application may publish under the condition to subjects that start with this.
        publish_prefix: String,
        subject: String,
        /// The sequence that must still be the subject's last.
        expected_last_sequence: u64,
    },
}
