//! Checks whether this build has what the settings choose: some kinds of stores and plugins, and traces, need a Cargo
//! feature.
//!
//! This is not part of loading: every build reads and checks settings in the same way.

use super::{fault::Faults, load::Loaded};

/// What needs a Cargo feature of the same name, and whether this build has it.
const OPTIONAL: [(&str, bool); 4] = [
    ("nats", cfg!(feature = "nats")),
    ("dynamodb", cfg!(feature = "dynamodb")),
    ("postgres", cfg!(feature = "postgres")),
    ("otel", cfg!(feature = "otel")),
];

/// The settings choose what this build lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this build of tenure was made without the Cargo feature `{0}`")]
pub struct NotBuilt(pub &'static str);

impl Loaded {
    /// Checks whether this build has the chosen store and plugins, and traces if there is a collector.
    ///
    /// # Errors
    /// All that the build lacks.
    pub fn check_build(&self) -> Result<(), Faults> {
        self.check_against(&OPTIONAL)
    }

    /// The same, for a build with these optional parts.
    pub(super) fn check_against(&self, optional: &[(&str, bool)]) -> Result<(), Faults> {
        let store = ("store.kind".to_owned(), self.settings.store.kind.as_str());
        let plugins = self.settings.plugins.iter().enumerate();
        let plugins = plugins.map(|(at, it)| (format!("plugin[{at}].kind"), it.kind.as_str()));
        let traced = !self.settings.telemetry.otlp_endpoint.is_empty();
        let traces = traced.then(|| ("telemetry.otlp_endpoint".to_owned(), "otel"));
        let lacks = |(_, kind): &(String, &str)| optional.contains(&(*kind, false));
        let chosen = std::iter::once(store).chain(plugins).chain(traces).filter(lacks);
        let faults = chosen.map(|(key, kind)| self.fault(&key, NotBuilt(kind).to_string()));
        Faults(faults.collect()).or(())
    }
}
