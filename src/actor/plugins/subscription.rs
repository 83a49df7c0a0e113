//! What a plugin is notified of.

use std::{sync::Arc, time::Duration};

use crate::{lease::ChangeKind, settings, store::Committed};

/// What a plugin is notified of, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub plugin: Arc<str>,
    /// The kinds of changes that it is notified of.
    pub on: Vec<ChangeKind>,
    /// The prefix of the keys.
    pub prefix: String,
    /// How long one call may take.
    pub timeout: Duration,
    /// How many keys' changes it is notified of at once.
    pub concurrency: usize,
    /// Whether the log has an excerpt of what the program or the server said when it failed.
    pub log_detail: bool,
}

impl Subscription {
    /// The subscription of a plugin; `None` if its settings ask for none.
    #[must_use]
    pub fn of(plugin: &settings::Plugin) -> Option<Self> {
        let settings::Plugin { name, on, prefix, timeout, concurrency, log_detail, .. } = plugin;
        (!on.is_empty()).then(|| Self {
            plugin: name.as_str().into(),
            on: on.clone(),
            prefix: prefix.clone(),
            timeout: *timeout,
            concurrency: *concurrency,
            log_detail: *log_detail,
        })
    }

    /// Whether the plugin is notified of this change.
    #[must_use]
    pub fn wants(&self, Committed { key, change, .. }: &Committed) -> bool {
        !key.is_internal()
            && key.as_str().starts_with(&self.prefix)
            && self.on.contains(&change.kind)
    }
}
