//! `[telemetry]`: logs.

use tracing_subscriber::EnvFilter;

use super::super::{table::section, value::written_as_text};

section! {
    /// The section `[telemetry]`: which log lines are written, and in which format.
    pub struct Telemetry {
        /// Which log lines are written: "error", "warn", "info", "debug", "trace", or directives such as
        /// "info,tenure::actor=debug".
        log: String = "info".into(), if no_filter;
        /// "text" for people; "json" for one JSON object per line.
        log_format: LogFormat = LogFormat::Text;
        /// Maximum number of log lines per second about changes of ownership. Suppressed lines are counted. 0: no
        /// limit.
        ownership_lines_per_second: u32 = 1000;
    }
}

fn no_filter(telemetry: &Telemetry) -> Option<String> {
    let error = EnvFilter::try_new(&telemetry.log).err()?;
    Some(format!("is not a log filter: {error}"))
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text, for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

written_as_text! {
    LogFormat: "\"text\" or \"json\"",
        |text| [Self::Text, Self::Json].into_iter().find(|format| format.as_str() == text),
        |format| format.as_str().to_owned();
}
