//! The limits of a plugin.

use std::time::Duration;

use crate::settings;

/// The limits of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// How long one try may take.
    pub timeout: Duration,
    /// How often a failed order is tried again.
    pub retries: u32,
    /// How many orders are worked on at once. More orders wait.
    pub concurrency: usize,
    /// Whether the log has an excerpt of what the program or the server said when it failed.
    pub log_detail: bool,
}

/// The limits of a plugin whose settings say nothing of them.
impl Default for PluginLimits {
    fn default() -> Self {
        Self::from(&settings::Plugin::default())
    }
}

impl From<&settings::Plugin> for PluginLimits {
    fn from(plugin: &settings::Plugin) -> Self {
        let settings::Plugin { timeout, retries, concurrency, log_detail, .. } = *plugin;
        Self { timeout, retries, concurrency, log_detail }
    }
}
