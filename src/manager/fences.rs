//! Orders for fences: skip those that are not confirmed, and run those that failed for good once more.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use super::{AdminError, Asked, CallError, Invalid, Manager, checks::check_text};
use crate::{
    api::limits::MAX_REASON_BYTES,
    lease::{Key, Request, StoreError, View},
};

/// What [`Manager::retry_failed_fences`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetriedFences {
    /// The number of keys whose fences run once more.
    pub retried: usize,
    /// The number of further keys with failed fences, anywhere in the store, which are too many to be known by name.
    pub more: usize,
}

impl Manager {
    /// Cancels the fences of a key that were not confirmed.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn skip_fences(
        &self,
        key: &Key,
        reason: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<View, AdminError> {
        check_text("reason", reason, MAX_REASON_BYTES)?;
        let make = || Request::FenceSkip(reason.into(), actor.into());
        self.carry_out(key, asked.into(), make).await
    }

    /// Runs the fences of a key that failed for good once more: those of one plugin, or all. Does not wait for their
    /// outcome. Returns whether there are any.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn retry_fences(
        &self,
        key: &Key,
        plugin: Option<&str>,
        asked: impl Into<Asked>,
    ) -> Result<bool, AdminError> {
        self.check_plugin(plugin)?;
        match self
            .carry_out(key, asked.into(), || Request::FenceRetry(plugin.map(Into::into)))
            .await
        {
            Ok(_) => Ok(true),
            Err(AdminError::NotFencing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The same, for all keys that begin with a prefix and whose home node is this one, or has ended. The caller must ask
    /// the other nodes ([`Self::others`]) as well.
    ///
    /// # Errors
    /// [`AdminError`]. What was ordered before the error stays ordered.
    pub async fn retry_failed_fences(
        &self,
        prefix: &str,
        plugin: Option<&str>,
        asked: impl Into<Asked>,
    ) -> Result<RetriedFences, AdminError> {
        self.check_plugin(plugin)?;
        let asked = asked.into();
        let counted = self.counted().await.ok_or_else(uncounted)?;
        let failed = self.keys_with_failed_fences(Some(&counted));
        let keys = failed.into_iter().map(|failed| failed.key);
        let keys: Vec<_> = keys.filter(|key| key.as_str().starts_with(prefix)).collect();
        let each = keys.iter().map(|key| self.retry_fences(key, plugin, asked));
        let mut each = stream::iter(each).buffered(self.at_once());
        let mut done = RetriedFences { retried: 0, more: counted.census.more_failed };
        while let Some(retried) = each.next().await {
            match retried {
                Ok(retried) => done.retried += usize::from(retried),
                Err(AdminError::Call(CallError::Elsewhere(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Runs all fences of this node that failed for good once more, because the settings of plugins were read again. Says
    /// how many.
    pub(super) async fn retry_after_reload(self: Arc<Self>) {
        match self.retry_failed_fences("", None, self.now()).await {
            Ok(RetriedFences { retried: 0, .. }) => {}
            Ok(RetriedFences { retried, .. }) => {
                tracing::info!(
                    keys = retried,
                    "the failed fences run once more: the settings were reloaded"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the failed fences do not run once more after the reload");
            }
        }
    }

    fn check_plugin(&self, plugin: Option<&str>) -> Result<(), Invalid> {
        match plugin {
            Some(plugin) if !self.coordinator.plugins.knows(plugin) => Err(Invalid {
                field: "plugin",
                detail: format!("no plugin of this node has the name {plugin:?}"),
            }),
            _ => Ok(()),
        }
    }
}

fn uncounted() -> CallError {
    StoreError::Unavailable("the keys with failed fences cannot be read".into()).into()
}
