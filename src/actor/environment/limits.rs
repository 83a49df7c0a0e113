//! Limits of the actors.

use std::{path::PathBuf, time::Duration};

use super::reach::Reach;

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
    /// Whether this node runs programs as checks of sessions, regardless of where the session was made.
    pub exec_checks: bool,
    /// Where checks of sessions may connect to, regardless of where the session was made.
    pub reach: Reach,
    /// A PEM file of additional trusted authorities for `https` checks, beyond those of the system. Empty: none.
    pub checks_ca: PathBuf,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            passivate_after: Duration::from_secs(30),
            restart_intensity: 10,
            restart_window: Duration::from_secs(10),
            subscribers: 2048,
            bus_buffer: 16_384,
            exec_checks: false,
            reach: Reach::default(),
            checks_ca: PathBuf::new(),
        }
    }
}
