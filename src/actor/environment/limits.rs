//! Limits of the actors.

#[cfg(feature = "testing")]
#[path = "../../../tests/doors/min_age.rs"]
mod door;

use std::{path::PathBuf, time::Duration};

use super::reach::Reach;
use crate::settings::Settings;

/// A lease of a pool is not asked for before it was held for this time.
const MIN_AGE: Duration = Duration::from_secs(10);

/// [`MIN_AGE`], unless a test sets another time.
fn min_age() -> Duration {
    #[cfg(feature = "testing")]
    if let Some(span) = door::min_age() {
        return span;
    }
    MIN_AGE
}

/// Bounds on the memory and the restarts of the actors, and on what checks of sessions may reach.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The actor of an idle, free key leaves memory after this time.
    pub passivate_after: Duration,
    /// How often one key's actor may be restarted…
    pub restart_intensity: usize,
    /// The period over which those restarts are counted.
    pub restart_window: Duration,
    /// The highest number of subscribers of the bus.
    pub subscribers: usize,
    /// How many changes the bus keeps for slow subscribers.
    pub bus_buffer: usize,
    /// A lease of a pool is not asked for before it was held for this time.
    pub min_age: Duration,
    /// Whether this node runs programs as checks of sessions, regardless of where the session was made.
    pub exec_checks: bool,
    /// Where checks of sessions may connect to, regardless of where the session was made.
    pub reach: Reach,
    /// A PEM file of additional trusted authorities for `https` checks, beyond those of the system. Empty: none.
    pub checks_ca: PathBuf,
    /// Whether the log has an excerpt of what failed checks found.
    pub checks_detail: bool,
}

impl Limits {
    /// The limits that the settings give. What checks may reach also depends on the addresses of the coordinator.
    #[must_use]
    pub fn new(settings: &Settings, reach: Reach) -> Self {
        Self {
            passivate_after: settings.node.passivate_after,
            restart_intensity: settings.actors.restart_intensity as usize,
            restart_window: settings.actors.restart_window,
            subscribers: settings.limits.subscribers,
            bus_buffer: settings.events.buffer,
            min_age: min_age(),
            exec_checks: settings.limits.exec_checks,
            reach,
            checks_ca: settings.checks.ca.clone(),
            checks_detail: settings.checks.log_detail,
        }
    }
}

/// The limits of the default settings, with checks that reach nothing.
impl Default for Limits {
    fn default() -> Self {
        Self::new(&Settings::default(), Reach::default())
    }
}
