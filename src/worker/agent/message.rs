//! What an agent reports to people.

use crate::{client::Loss, worker::guard::Report};

/// What the agent reports while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentMessage {
    /// A report of the state machine.
    Report(Report),
    /// The lease was granted, with this token.
    Granted(u64),
    Lost(Loss),
    /// The lease was not granted.
    Refused(String),
    /// The lease could not be given back, so it expires.
    NotReleased(String),
    /// The guardian has run the will by itself.
    WillRan,
    /// The guardian is gone. Another one is started for the deactivation.
    GuardianGone,
    Pulse,
}
