//! Structured logs: one line per ownership change, nothing secret in any.

use std::sync::Mutex;

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use crate::lease::{Change, ChangeKind, Key, Moment, Owner};

/// Sends logs to stderr, as text or as one JSON object a line. A second call changes nothing.
///
/// # Errors
/// When `filter` is not a filter of `tracing_subscriber`'s form.
pub fn init_logs(filter: &str, json: bool) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = EnvFilter::builder().parse(filter)?;
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none();
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(ansi).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    let _ = if json {
        registry.with(layer.json().flatten_event(true)).try_init()
    } else {
        registry.with(layer).try_init()
    };
    Ok(())
}

/// Writes the line of each ownership change, up to a rate; what it left out it says.
pub struct OwnershipLog {
    /// Lines per second; 0: no bound.
    rate: u64,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    began: Moment,
    written: u64,
    suppressed: u64,
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

impl OwnershipLog {
    /// At most `rate` lines per second; 0 for no bound.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self { rate, window: Mutex::default() }
    }

    /// Writes the line of one change, or counts that it did not. Gives how many were left out.
    pub fn write(&self, key: &Key, change: &Change, now: Moment) -> u64 {
        let left_out = {
            let mut window = self.window.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if now.since(window.began) >= SECOND {
                if window.suppressed > 0 {
                    tracing::warn!(
                        lines = window.suppressed,
                        "ownership lines left out, see telemetry.ownership_lines_per_second; the event log has every change"
                    );
                }
                *window = Window { began: now, ..Window::default() };
            }
            if self.rate > 0 && window.written >= self.rate {
                window.suppressed += 1;
                true
            } else {
                window.written += 1;
                false
            }
        };
        if left_out {
            return 1;
        }
        let owner = change.owner.as_ref().map(Owner::as_str);
        let previous = change.previous.as_ref().map(|(owner, _)| owner.as_str());
        let (reason, actor) = (change.reason.as_deref(), change.actor.as_deref());
        if matches!(change.kind, ChangeKind::Expired | ChangeKind::Revoked) {
            tracing::warn!(key = %key, seq = change.seq, token = change.token.0, owner, previous, reason, actor, "{}", change.kind.as_str());
        } else {
            tracing::info!(key = %key, seq = change.seq, token = change.token.0, owner, previous, reason, actor, "{}", change.kind.as_str());
        }
        0
    }
}
