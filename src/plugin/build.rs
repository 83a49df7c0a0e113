//! Makes a plugin from its settings.

use std::sync::Arc;

#[cfg(not(feature = "nats"))]
use super::absent as nats;
#[cfg(not(feature = "postgres"))]
use super::absent as postgres;
#[cfg(feature = "nats")]
use super::nats;
#[cfg(feature = "postgres")]
use super::postgres;
use super::{
    build_error::BuildError, contract::FencePlugin, exec::Exec, log::Log, webhook::Webhook,
};
use crate::{
    clock::Clock,
    settings::{self, PluginKind},
};

/// Makes the plugin of a `[[plugin]]`. `store` gives the servers of a plugin of kind `nats` that names none. It
/// connects to nothing before the first order.
///
/// # Errors
/// [`BuildError`]. It never contains a secret.
pub fn build(
    plugin: &settings::Plugin,
    store: &settings::Nats,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn FencePlugin>, BuildError> {
    let name = &plugin.name;
    Ok(match &plugin.kind {
        PluginKind::Exec(exec) => Arc::new(Exec::new(&exec.command, &exec.environment)),
        PluginKind::Webhook(hook) => Arc::new(Webhook::new(name, &hook.url, &hook.secrets, clock)?),
        PluginKind::Nats(_) => nats::build(plugin, store, clock)?,
        PluginKind::Postgres(_) => postgres::build(plugin, store, clock)?,
        PluginKind::Log => Arc::new(Log::new(name)),
        #[cfg(feature = "testing")]
        PluginKind::Panic => Arc::new(Panics),
    })
}

/// For tests: panics, on every second try at once, and otherwise a moment later.
#[cfg(feature = "testing")]
struct Panics;

#[cfg(feature = "testing")]
impl FencePlugin for Panics {
    fn fence(&self, order: super::contract::FenceOrder) -> super::contract::Fencing {
        assert!(order.attempt.is_multiple_of(2), "a test asked for it");
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("a test asked for it")
        })
    }

    fn notify(&self, _: super::contract::Notification) -> super::contract::Fencing {
        panic!("a test asked for it")
    }
}
