//! `[[plugin]]`: the plugins that fence resources.

mod exec;
mod nats;
mod plugin;
mod postgres;
mod read;
mod strict;
mod webhook;

pub use exec::ExecPlugin;
pub use nats::{NatsMode, NatsPlugin};
pub(super) use plugin::names;
pub use plugin::{Plugin, PluginKind};
pub use postgres::{FENCE_TABLE, PostgresPlugin};
pub(super) use read::read;
pub use webhook::{WEBHOOK_SECRET, WebhookPlugin};
