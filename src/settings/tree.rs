//! All settings: the sections as one value, and every row of the table in its place.

use std::{net::SocketAddr, sync::LazyLock};

use config::{ConfigError, Value};

use super::{
    plugins::{self, Plugin},
    policies::{self, Policy},
    sections::{Actors, Audit, Auth, Checks, Events, Limits, Node, Server, Telemetry},
    stores::Store,
    table::{About, Section},
    value::Shown,
};

/// Every setting. `config/tenure.toml` lists them with default, unit and meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The HTTP server: its addresses, threads and connections.
    pub server: Server,
    /// Who may call this coordinator.
    pub auth: Auth,
    /// This coordinator: its name, its address, and its record in a shared store.
    pub node: Node,
    /// The kind of store that keeps the leases, and the settings of each kind.
    pub store: Store,
    /// Bounds on what callers may request and hold.
    pub limits: Limits,
    /// Where the health checks of sessions may connect.
    pub checks: Checks,
    /// The buffer and the comment lines of the event stream.
    pub events: Events,
    /// Which log lines are written, and in which format.
    pub telemetry: Telemetry,
    /// The file of the audit log, and its rotation.
    pub audit: Audit,
    /// How often an actor that failed is restarted.
    pub actors: Actors,
    /// The policies for the keys under a prefix; only a file has them.
    pub policies: Vec<Policy>,
    /// The plugins that fence resources; only a file has them.
    pub plugins: Vec<Plugin>,
}

/// Lists the settings of these sections.
macro_rules! placed {
    ($($($part:ident).+,)*) => {{
        let mut table = Vec::new();
        $(place(
            &mut table,
            [$(stringify!($part)),+].join("."),
            |settings| &settings.$($part).+,
            |settings| &mut settings.$($part).+,
        );)*
        table
    }};
}

/// Every setting of a section, in the order of the shipped file.
pub(super) static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    placed! {
        server,
        auth,
        node,
        store,
        store.embedded,
        store.nats,
        store.dynamodb,
        limits,
        checks,
        events,
        telemetry,
        audit,
        actors,
    }
});

/// What a setting says of all settings.
type Of<T> = Box<dyn Fn(&Settings) -> T + Send + Sync>;
type Set = Box<dyn Fn(&mut Settings, Value) -> Result<(), ConfigError> + Send + Sync>;
type Differs = Box<dyn Fn(&Settings, &Settings) -> bool + Send + Sync>;

/// A row of the table in its place.
pub(super) struct Setting {
    /// The name of its section, such as `store.nats`.
    pub(super) section: String,
    /// Section and key, such as `store.nats.url`.
    pub(super) path: String,
    pub(super) about: &'static About,
    pub(super) set: Set,
    pub(super) show: Of<Shown>,
    pub(super) faults: Of<Vec<String>>,
    pub(super) file_faults: Of<Vec<String>>,
    /// It names a file with certificates.
    pub(super) is_of_certificates: bool,
    differs: Differs,
}

fn place<S: Section>(
    table: &mut Vec<Setting>,
    name: String,
    of: fn(&Settings) -> &S,
    of_mut: fn(&mut Settings) -> &mut S,
) {
    table.extend(S::ROWS.iter().map(|row| Setting {
        section: name.clone(),
        path: format!("{name}.{}", row.about.key),
        about: &row.about,
        set: Box::new(move |settings, value| (row.set)(of_mut(settings), value)),
        show: Box::new(move |settings| (row.show)(of(settings))),
        faults: Box::new(move |settings| row.faults(of(settings))),
        file_faults: Box::new(move |settings| row.file_faults(of(settings))),
        is_of_certificates: row.is_of_certificates(),
        differs: Box::new(move |one, other| (row.differs)(of(one), of(other))),
    }));
}

pub(super) fn setting(path: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.path == path)
}

impl Settings {
    /// The faults of values that have the right types, with their paths.
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let of = |setting: &'static Setting| {
            let faults = (setting.faults)(self).into_iter();
            faults.map(move |problem| (setting.path.as_str(), problem))
        };
        TABLE.iter().flat_map(of).chain(self.unreachable()).collect()
    }

    /// The other nodes of a shared store must be able to reach this one.
    fn unreachable(&self) -> Option<(&'static str, String)> {
        let problem = "must be set: server.listen is any address, and the other nodes of the store \
                       pass requests on to this one";
        let alone = !self.store.kind.is_shared() || !self.node.advertise_url.is_empty();
        let unreachable = self.server.listen.ip().is_unspecified() && !alone;
        unreachable.then(|| ("node.advertise_url", problem.to_owned()))
    }

    /// The policies of all keys.
    #[must_use]
    pub fn lease_policies(&self) -> crate::lease::Policies {
        policies::to_lease(&self.policies, &self.limits)
    }

    /// The keys whose values differ, not counting policies.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let differing = TABLE.iter().filter(|setting| (setting.differs)(self, other));
        let mut paths: Vec<String> = differing.map(|setting| setting.path.clone()).collect();
        paths.sort_unstable();
        paths
    }

    /// These settings, with other policies and plugins.
    ///
    /// # Errors
    /// A sentence for each policy that does not fit the limits and plugins of these settings.
    pub fn with_policies(
        &self,
        policies: Vec<Policy>,
        plugins: Vec<Plugin>,
    ) -> Result<Self, Vec<String>> {
        let faults = policies::faults(&policies, &self.limits, &plugins::names(&plugins));
        if faults.is_empty() {
            return Ok(Self { policies, plugins, ..self.clone() });
        }
        let sentence = |(at, key, problem): (usize, _, _)| {
            format!("policy {:?}: {key}: {problem}", policies[at].prefix)
        };
        Err(faults.into_iter().map(sentence).collect())
    }

    /// The URL at which clients reach this coordinator when it listens on `bound` (which differs from `server.listen`
    /// if that leaves the port open).
    #[must_use]
    pub fn advertise_url(&self, bound: SocketAddr) -> String {
        if self.node.advertise_url.is_empty() {
            let scheme = if self.server.tls_files().is_some() { "https" } else { "http" };
            format!("{scheme}://{bound}")
        } else {
            self.node.advertise_url.clone()
        }
    }

    /// The name of this coordinator for people.
    #[must_use]
    pub fn node_name(&self, bound: SocketAddr) -> String {
        if self.node.name.is_empty() { bound.to_string() } else { self.node.name.clone() }
    }
}
