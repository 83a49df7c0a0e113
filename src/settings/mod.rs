//! The configuration: one table of settings, and the layers that set them.
//!
//! Guarantees: the layers, from weakest to strongest, are built-in defaults < file < environment
//! (`TENURE__SECTION__KEY`) < flags. An unknown key is a fault. [`Sources::load`] reports all faults at once, each with
//! its layer, and with its line in the file.
//!
//! Does not guarantee: that what the settings name exists or can be used (a directory, an address).
//! [`Loaded::check_files`] checks files that are only read, and [`Loaded::check_build`] checks for stores and plugins
//! that this build may lack.

mod build;
mod certificates;
mod content;
mod fault;
mod files;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/readers/settings.rs"]
pub(crate) mod fuzzing;
mod headers;
mod layers;
mod listed;
mod load;
mod networks;
mod plaintext;
mod plugins;
mod policies;
mod posture;
mod secret;
mod sections;
mod shipped;
mod show;
mod sources;
mod stores;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_build;
#[cfg(test)]
mod tests_networks;
#[cfg(test)]
mod tests_plaintext;
#[cfg(test)]
mod tests_plugins;
#[cfg(test)]
mod tests_policies;
#[cfg(test)]
mod tests_traces;
mod toml_file;
mod toml_text;
mod tree;
mod units;
mod urls;
mod value;

pub use build::NotBuilt;
pub use fault::{Fault, Faults, Origin};
pub(crate) use headers::read_headers;
pub use load::Loaded;
pub use networks::{CheckTargets, Network, is_link_local};
#[cfg(feature = "postgres")]
pub use plaintext::of_postgres;
pub use plaintext::{all_loopback, has_tls_address};
pub use plugins::{
    ExecPlugin, FENCE_TABLE, NatsMode, NatsPlugin, Plugin, PluginKind, PostgresPlugin,
    WEBHOOK_SECRET, WebhookPlugin,
};
pub use policies::Policy;
pub use secret::{FileError, Secret, first_line};
pub use sections::{
    Actors, Audit, Auth, Checks, Events, Limits, LogFormat, Node, Server, Telemetry, Workers,
};
pub use shipped::shipped_file;
pub use sources::Sources;
pub use stores::{DynamoDb, Embedded, Nats, Store, StoreKind};
pub(crate) use toml_text::TomlText;
pub use tree::Settings;
pub use units::{ByteSize, format_duration, parse_duration};
