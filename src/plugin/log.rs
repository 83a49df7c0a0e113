//! The kind `log`: writes a line to the log.

use super::contract::{FenceOrder, FencePlugin, Fencing, Notification};

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

    fn notify(&self, notification: Notification) -> Fencing {
        let (plugin, kind, id) = (&*self.name, notification.kind(), &*notification.id);
        match &notification.change {
            Some(committed) => {
                let change = &committed.change;
                let (key, token) = (committed.key.as_str(), change.token.0);
                let owner = change.owner.as_ref().map(|owner| owner.as_str());
                tracing::info!(plugin, kind, id, key, token, owner, "notification");
            }
            None => tracing::warn!(plugin, kind, id, "notification"),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
