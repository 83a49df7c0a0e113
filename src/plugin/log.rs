//! The kind `log`: writes a line to the log.

use super::contract::{FenceOrder, FencePlugin, Fencing};

/// Writes a line to the log and confirms. It fences nothing.
pub(super) struct Log {
    name: String,
}

impl Log {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

impl FencePlugin for Log {
    fn fence(&self, order: FenceOrder) -> Fencing {
        tracing::warn!(
            plugin = self.name,
            key = order.key.as_str(),
            token = order.token.0,
            owner = order.owner.as_str(),
            reason = order.reason.as_str(),
            "fence"
        );
        Box::pin(std::future::ready(Ok(())))
    }
}
