//! `[node]`: this coordinator.

use std::{path::PathBuf, time::Duration};

use super::super::{
    content::Content,
    table::section,
    units::DAY,
    urls::{HTTP, has_scheme},
};
use crate::lease::MAX_NODE_TTL_MS;

section! {
    /// The section `[node]`: this coordinator among the others.
    pub struct Node {
        /// Display name of this coordinator. Empty: its listen address.
        name: String = String::new();
        /// URL at which clients and other coordinators reach this coordinator. Empty: derived from the listen address.
        advertise_url: String = String::new(), if not_http;
        /// PEM file with the certificate authorities for the https URLs of the store's other coordinators. No other
        /// authority is trusted for them. Empty: the authorities of the operating system.
        ca: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE");
        /// Shared stores only: how long this coordinator may keep making promises after the last renewal of its own
        /// record in the store. It renews the record four times in this time. If the coordinator dies, its leases wait
        /// at least this long. If the store is unreachable for longer, the coordinator stops making promises.
        ttl: Duration = Duration::from_secs(3),
            in Duration::from_millis(500)..=Duration::from_millis(MAX_NODE_TTL_MS);
        /// Shared stores only: the witness file, in which this coordinator remembers across restarts how far the store
        /// has come. It detects a store that went backwards. Empty: no file.
        witness: PathBuf = "./tenure-data/witness.json".into();
        /// How long the actor of a free key stays in memory without a call.
        passivate_after: Duration = Duration::from_secs(30), in Duration::from_millis(10)..=DAY;
    }
}

fn not_http(node: &Node) -> Option<String> {
    let problem = "must be empty or a URL such as http://10.0.0.7:7373";
    let url = &node.advertise_url;
    (!url.is_empty() && !has_scheme(url, &HTTP)).then(|| problem.to_owned())
}
