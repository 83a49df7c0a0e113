//! Structured logs, with one line per ownership change. No line contains a secret.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt, Targets, filter_fn},
    fmt,
    layer::Context,
    prelude::*,
};

use super::{escaped::Lines, line_limit::Limited, traced_lines::TracedLines};
use crate::lease::{Change, ChangeKind, Key, Moment, Owner};

/// The targets of lines at `ERROR` about connections. Any caller can cause any number of such lines, with bytes that
/// are not HTTP.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLines {
    /// The target of lines that say that a connection broke off.
    pub broken: &'static str,
    /// The target of lines with details.
    pub more: &'static str,
}

impl ConnectionLines {
    fn has(self, line: &Metadata<'_>) -> bool {
        [self.broken, self.more].contains(&line.target()) && *line.level() == Level::ERROR
    }
}

/// Counts connections that broke off, whether or not their lines are written.
struct BrokenConnections(ConnectionLines);

impl<S: Subscriber> Layer<S> for BrokenConnections {
    fn on_event(&self, line: &Event<'_>, _: Context<'_, S>) {
        if line.metadata().target() == self.0.broken {
            metrics::counter!("tenure_http_connections_broken_total").increment(1);
        }
    }
}

/// Sends logs to stderr, as text or as one JSON object per line, which has the ids of the trace if its call is traced.
/// Lines about connections that broke off are counted, and only written if `filter` enables those of the HTTP server at
/// `debug`. A second call changes nothing.
///
/// # Errors
/// When `filter` is not a valid filter of `tracing_subscriber`.
pub fn init_logs(
    filter: &str,
    json: bool,
    connections: ConnectionLines,
) -> Result<(), tracing_subscriber::filter::ParseError> {
    let targets = filter.parse::<Targets>();
    let verbose =
        targets.is_ok_and(|targets| targets.would_enable(connections.broken, &Level::DEBUG));
    let shown = filter_fn(move |line| verbose || !connections.has(line));
    let filter = EnvFilter::builder().parse(filter)?.and(shown).and(Limited);
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none();
    let layer = fmt::layer()
        .with_writer(move || Lines::new(std::io::stderr(), json))
        .with_ansi(ansi)
        .with_target(false);
    let broken = BrokenConnections(connections);
    let broken = broken.with_filter(filter_fn(move |line| connections.has(line)));
    let registry = tracing_subscriber::registry().with(broken);
    let _ = if json {
        let layer = layer.json().flatten_event(true).map_event_format(TracedLines);
        registry.with(layer.with_filter(filter)).try_init()
    } else {
        registry.with(layer.with_filter(filter)).try_init()
    };
    Ok(())
}

/// Writes one line for each ownership change, up to a rate, and reports how many lines it left out.
pub struct OwnershipLog {
    /// The most lines per second; 0: no bound.
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

    /// Writes the line of one change, or counts it as left out. Returns how many lines were left out.
    pub fn write(&self, key: &Key, change: &Change, now: Moment) -> u64 {
        self.settle(now);
        if !self.take(now) {
            return 1;
        }
        // The text format quotes texts, so that a key with spaces cannot look like other fields.
        let (key, kind) = (key.as_str(), change.kind.as_str());
        let owner = change.owner.as_ref().map(Owner::as_str);
        let previous = change.previous.as_ref().map(|(owner, _)| owner.as_str());
        let (reason, actor) = (change.reason.as_deref(), change.actor.as_deref());
        let (seq, token) = (change.seq, change.token.0);
        if matches!(change.kind, ChangeKind::Expired | ChangeKind::Revoked) {
            tracing::warn!(key, seq, token, owner, previous, reason, actor, "{kind}");
        } else {
            tracing::info!(key, seq, token, owner, previous, reason, actor, "{kind}");
        }
        0
    }

    /// Logs how many lines were left out, once the second in which that happened is over. It must be called from time
    /// to time, since after a burst there may be no further change.
    pub fn settle(&self, now: Moment) {
        let lines = {
            let mut window = self.window();
            if window.suppressed == 0 || now.since(window.began) < SECOND {
                return;
            }
            std::mem::take(&mut *window).suppressed
        };
        tracing::warn!(
            lines,
            "ownership lines left out: raise telemetry.ownership_lines_per_second; the event log has every change"
        );
    }

    /// Whether one more line may be written now. Counts the line in either case.
    fn take(&self, now: Moment) -> bool {
        let mut window = self.window();
        if now.since(window.began) >= SECOND {
            *window = Window { began: now, ..Window::default() };
        }
        let fits = self.rate == 0 || window.written < self.rate;
        *(if fits { &mut window.written } else { &mut window.suppressed }) += 1;
        fits
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Token;

    fn write(log: &OwnershipLog, at_ms: u64) -> u64 {
        let change = Change {
            kind: ChangeKind::Granted,
            seq: 1,
            owner: None,
            token: Token(1),
            previous: None,
            reason: None,
            actor: None,
            session: None,
        };
        let now = Moment(at_ms * 1_000_000);
        log.write(&Key::new("k").expect("a key"), &change, now)
    }

    #[test]
    fn a_second_has_as_many_lines_as_the_rate_and_counts_the_rest() {
        let log = OwnershipLog::new(2);
        let left_out = [5_000, 5_001, 5_002, 5_999, 6_000, 6_001, 6_002].map(|at| write(&log, at));
        assert_eq!(left_out, [0, 0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn what_was_left_out_is_settled_once_and_not_before_its_second_is_over() {
        let log = OwnershipLog::new(1);
        for at in [5_000, 5_001, 5_002] {
            write(&log, at);
        }
        log.settle(Moment(5_999_000_000));
        assert_eq!(log.window().suppressed, 2);
        log.settle(Moment(6_000_000_000));
        assert_eq!(log.window().suppressed, 0);
    }

    #[test]
    fn a_rate_of_zero_is_no_bound() {
        let log = OwnershipLog::new(0);
        assert_eq!((0..5_000).map(|_| write(&log, 5_000)).sum::<u64>(), 0);
    }
}
