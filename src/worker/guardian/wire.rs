//! What the agent and its guardian tell each other: one JSON object a line.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// A program with its surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables besides those of the agent.
    #[serde(default)]
    pub env: Vec<(String, OsString)>,
    /// Whether it reads the agent's standard input; it reads nothing otherwise.
    #[serde(default)]
    pub stdin: bool,
    /// After so many milliseconds its group is killed.
    #[serde(default)]
    pub limit_ms: Option<u64>,
    /// Whether what it started goes on when it has ended by itself: until the guardian's own end.
    #[serde(default)]
    pub leaves: bool,
}

/// From the agent.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "kebab-case")]
pub(super) enum Order {
    /// The agent starts a program itself, which wears the mark of this number: what wears it ends with the agent.
    Attend { id: u64 },
    /// That program has ended. What it left goes on.
    Leave { id: u64 },
    /// A new slot.
    Slot { id: u64, grace_ms: u64, margin_ms: u64 },
    /// What to run when the slot is stopped without the agent.
    Will { id: u64, task: Option<Task> },
    /// Run this.
    Run { id: u64, task: Task },
    /// The guarantee of one slot, or of all, ends at this reading of `CLOCK_BOOTTIME`, or not at all.
    Deadline { id: Option<u64>, at_ms: Option<u64> },
    /// Send a signal to the slot's group.
    Signal { id: u64, signal: i32 },
    /// Stop what runs: SIGTERM, so much time, SIGKILL.
    Stop { id: u64, grace_ms: u64 },
    /// Stop it, and forget the slot, its will undone.
    Dismiss { id: u64 },
}

/// From the guardian.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "kebab-case")]
pub(super) enum Report {
    Started { id: u64, pid: u32 },
    Refused { id: u64, error: RunError },
    Stopping { id: u64, why: Why },
    Exited { id: u64, exit: Exit },
    Willed { id: u64, exit: Exit },
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its own code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it was stopped; none when it ended by itself.
    pub why: Option<Why>,
}

impl Exit {
    /// Whether it ended by itself, with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// The number that shells give it: its code, or 128 and its signal.
    #[must_use]
    pub fn number(&self) -> u8 {
        let number = self.code.or(self.signal.map(|signal| 128 + signal));
        number.and_then(|number| u8::try_from(number & 0xff).ok()).unwrap_or(255)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (_, Some(signal)) => write!(f, "signal {signal}"),
            _ => f.write_str("lost sight of"),
        }
    }
}

/// Why the guardian stopped a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The agent said so.
    Asked,
    /// The end of the guarantee came near, and nothing newer was heard.
    Deadline,
    /// It ran longer than it may.
    Limit,
    /// The agent is gone.
    AgentGone,
    /// The guardian is gone: the agent killed it.
    GuardianGone,
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum RunError {
    /// The system says no.
    #[error("cannot run {program}: {problem}")]
    Unable {
        /// Which.
        program: String,
        /// In words.
        problem: String,
        /// Whether there is no such program; else it may not be executed.
        missing: bool,
    },
    /// Its time would be over before it began.
    #[error("the end of the guarantee is too near to start anything")]
    TooLate,
    /// Something runs already.
    #[error("something runs already")]
    Busy,
    /// The guardian is gone.
    #[error("the guardian is gone")]
    GuardianGone,
}
