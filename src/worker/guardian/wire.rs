//! The messages between an agent and its guardian: one JSON object per line.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// A program, and how to run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables in addition to those of the agent.
    #[serde(default)]
    pub env: Vec<(String, OsString)>,
    /// Whether it uses the agent's standard input. Otherwise its input is empty.
    #[serde(default)]
    pub stdin: bool,
    /// The time after which its group is killed, in milliseconds.
    #[serde(default)]
    pub limit_ms: Option<u64>,
    /// Whether the processes that it started continue after it ended by itself. They are killed when the guardian ends.
    #[serde(default)]
    pub leaves: bool,
}

/// A message from the agent.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "kebab-case")]
pub(super) enum GuardianOrder {
    /// The agent starts a program itself. Processes that carry the mark with this number end with the agent.
    Attend {
        id: u64,
    },
    /// That program has ended. The processes that it left continue.
    Leave {
        id: u64,
    },
    Slot {
        id: u64,
        grace_ms: u64,
        margin_ms: u64,
    },
    /// Set the will: what to run if the slot is stopped without the agent.
    Will {
        id: u64,
        task: Option<Task>,
    },
    Run {
        id: u64,
        task: Task,
    },
    /// The guarantee of one slot, or of all slots, ends at this reading of `CLOCK_BOOTTIME`, or never.
    Deadline {
        id: Option<u64>,
        at_ms: Option<u64>,
    },
    /// Send a signal to the slot's process group.
    Signal {
        id: u64,
        signal: i32,
    },
    /// Stop the program: SIGTERM, and SIGKILL after the grace.
    Stop {
        id: u64,
        grace_ms: u64,
    },
    /// Stop the program and remove the slot, without running its will.
    Dismiss {
        id: u64,
    },
}

/// A message from the guardian.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "kebab-case")]
pub(super) enum Report {
    Started { id: u64, pid: u32 },
    Refused { id: u64, error: RunError },
    Stopping { id: u64, why: Why },
    Exited { id: u64, exit: Exit },
    Willed { id: u64, exit: Exit },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The program's own exit code.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Why it was stopped. `None` if it ended by itself.
    pub why: Option<Why>,
}

impl Exit {
    /// Whether it exited with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// The exit code that shells report: its own code, or 128 + n for signal n.
    #[must_use]
    pub fn number(&self) -> u8 {
        let number = self.code.or(self.signal.map(|signal| 128 + signal));
        number.and_then(|number| u8::try_from(number & 0xff).ok()).unwrap_or(255)
    }

    /// How the program ended, and why it was stopped if nobody has said so yet.
    #[must_use]
    pub fn in_full(&self) -> String {
        match self.why.and_then(Why::unsaid) {
            Some(why) => format!("{self}: {why}"),
            None => self.to_string(),
        }
    }

    /// What to say of the program if it failed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        (!self.success()).then(|| format!("the program failed: {self}"))
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (_, Some(signal)) => write!(f, "signal {signal}"),
            _ => f.write_str("unknown exit status"),
        }
    }
}

/// Why the guardian stopped a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    Asked,
    /// The end of the guarantee came near, and no newer deadline arrived.
    Deadline,
    /// It ran longer than its limit.
    Limit,
    AgentGone,
    /// The guardian is gone, so the agent killed the program.
    GuardianGone,
}

impl Why {
    /// The reason in words. `None` where whoever asked for the stop has said it.
    #[must_use]
    pub fn unsaid(self) -> Option<&'static str> {
        match self {
            Self::Asked => None,
            Self::Deadline => {
                Some("stopped by the guardian, because no coordinator confirmed the lease in time")
            }
            Self::Limit => Some("stopped, because it ran longer than its limit"),
            Self::AgentGone => Some("stopped by the guardian, because the agent is gone"),
            Self::GuardianGone => Some("killed, because the guardian is gone"),
        }
    }
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum RunError {
    /// The system cannot start it.
    #[error("cannot run {program}: {problem}")]
    Unable {
        program: String,
        problem: String,
        /// Whether the program does not exist. Otherwise it cannot be executed.
        missing: bool,
    },
    /// It would have to be stopped at once.
    #[error("the guarantee of the lease ends too soon to start a program")]
    TooLate,
    /// The slot already runs a program.
    #[error("a program runs already")]
    Busy,
    #[error("the guardian is gone")]
    GuardianGone,
}
