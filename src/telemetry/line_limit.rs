//! A limit of lines for whatever fails again and again: a plugin, a store, a collector, a node that cannot be reached.
//!
//! Guarantees: for each place of the code that logs at WARN or ERROR, and for each thing that it names (a plugin, a pool, a
//! URL), the first [`BURST`] lines are written, and then one line in each [`EVERY`]. How many lines were left out is logged,
//! and so is that a failure has not come again.
//!
//! Does not limit: lines that report a fault of a file, since each names another fault; and lines about ownership changes,
//! which have the limit of [`super::OwnershipLog`].

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

use crate::{
    clock::{Clock as _, HashMap, SystemClock},
    lease::Moment,
};

/// So many lines of a failure are written at once.
const BURST: u32 = 5;
/// How often a further line is written, and how often it is said how many were left out.
const EVERY: Duration = Duration::from_secs(10);
/// A failure that has not come for this long is over. No task pauses longer between two attempts.
const OVER: Duration = Duration::from_secs(60);
/// The most failures that are told apart. Beyond them, the things of one place of the code share a limit.
const MOST: usize = 1024;
/// The fields that name what fails.
const THINGS: [&str; 8] = ["plugin", "pool", "url", "node", "bucket", "task", "segment", "what"];
/// The module whose lines have a limit of their own, and this one.
const EXEMPT: [&str; 2] = [concat!(env!("CARGO_PKG_NAME"), "::telemetry::log"), module_path!()];

/// The limit of this process: there is one log.
static LIMIT: LineLimit = LineLimit(Mutex::new(None));

/// Logs how many lines were left out, and which failures are over. It must be called from time to time, and not while a
/// line is written.
pub fn settle_lines(now: Moment) {
    for said in LIMIT.settle(now) {
        said.log();
    }
}

/// Lets lines pass up to the limit.
pub(super) struct Limited;

impl<S: Subscriber> Filter<S> for Limited {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let is_own = metadata.module_path().is_some_and(|path| EXEMPT.contains(&path));
        if is_own || *metadata.level() > Level::WARN {
            return true;
        }
        let mut seen = Seen::default();
        event.record(&mut seen);
        let place = Place { code: Some(metadata.callsite()), thing: seen.thing };
        seen.is_fault || LIMIT.take(place, &seen.message, SystemClock::new().now())
    }
}

/// What a line says.
#[derive(Default)]
struct Seen {
    message: String,
    thing: Box<str>,
    is_fault: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "fault" | "faults" => self.is_fault = true,
            name if THINGS.contains(&name) && self.thing.is_empty() => {
                self.thing = format!("{value:?}").into();
            }
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if THINGS.contains(&field.name()) && self.thing.is_empty() {
            self.thing = value.into();
        } else {
            self.record_debug(field, &format_args!("{value}"));
        }
    }
}

/// Where a line is written, and which thing it is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    code: Option<Identifier>,
    thing: Box<str>,
}

/// What is known of a failure.
struct Repeats {
    message: String,
    /// The lines that may still be written at once.
    burst: u32,
    written: Moment,
    latest: Moment,
    told: Moment,
    /// Lines that nothing has been said of yet.
    left_out: u64,
    all: u64,
}

struct LineLimit(Mutex<Option<HashMap<Place, Repeats>>>);

/// What is said of a failure.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    LeftOut { lines: u64, thing: Box<str>, message: String },
    Over { lines: u64, thing: Box<str>, message: String },
}

impl Said {
    fn log(self) {
        match self {
            Self::LeftOut { lines, thing, message } => {
                let of = Some(&*thing).filter(|thing| !thing.is_empty());
                tracing::warn!(lines, of, "lines left out, which say: {message}");
            }
            Self::Over { lines, thing, message } => {
                let (of, seconds) =
                    (Some(&*thing).filter(|thing| !thing.is_empty()), OVER.as_secs());
                tracing::info!(lines, of, "it has not failed again for {seconds} s: {message}");
            }
        }
    }
}

impl LineLimit {
    /// Whether one more line may be written.
    fn take(&self, mut place: Place, message: &str, now: Moment) -> bool {
        let mut all = self.all();
        let all = all.get_or_insert_default();
        if all.len() >= MOST && !all.contains_key(&place) {
            place.thing = Box::default();
        }
        let repeats = all.entry(place).or_insert_with(|| Repeats {
            message: message.to_owned(),
            burst: BURST,
            written: now,
            latest: now,
            told: now,
            left_out: 0,
            all: 0,
        });
        repeats.latest = now;
        repeats.all += 1;
        let fits = repeats.burst > 0 || now.since(repeats.written) >= EVERY;
        if fits {
            repeats.burst = repeats.burst.saturating_sub(1);
            repeats.written = now;
        } else {
            repeats.left_out += 1;
        }
        fits
    }

    /// What is to be said now.
    fn settle(&self, now: Moment) -> Vec<Said> {
        let mut said = Vec::new();
        let mut all = self.all();
        all.get_or_insert_default().retain(|place, repeats| {
            let (thing, message) = (&place.thing, &repeats.message);
            if repeats.left_out > 0 && now.since(repeats.told) >= EVERY {
                let lines = std::mem::take(&mut repeats.left_out);
                said.push(Said::LeftOut { lines, thing: thing.clone(), message: message.clone() });
                repeats.told = now;
            }
            let is_over = now.since(repeats.latest) >= OVER;
            if is_over && repeats.all > 1 {
                let (thing, message) = (thing.clone(), message.clone());
                said.push(Said::Over { lines: repeats.all, thing, message });
            }
            !is_over
        });
        said
    }

    fn all(&self) -> MutexGuard<'_, Option<HashMap<Place, Repeats>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment(1 + ms * 1_000_000)
    }

    fn place(thing: &str) -> Place {
        Place { code: None, thing: thing.into() }
    }

    #[test]
    fn the_first_lines_are_written_and_then_one_in_each_ten_seconds() {
        let limit = LineLimit(Mutex::new(None));
        let mut written = Vec::new();
        for ms in (0..60_000).step_by(250) {
            if limit.take(place("a"), "it failed", at(ms)) {
                written.push(ms);
            }
        }
        assert_eq!(written, [0, 250, 500, 750, 1_000, 11_000, 21_000, 31_000, 41_000, 51_000]);
        assert!(limit.take(place("b"), "it failed", at(60_000)), "another thing has its own limit");
    }

    #[test]
    fn what_is_left_out_and_what_is_over_is_said_once() {
        let limit = LineLimit(Mutex::new(None));
        for ms in 0..20 {
            limit.take(place("a"), "it failed", at(ms));
        }
        let (thing, message): (Box<str>, _) = ("a".into(), "it failed".to_owned());
        assert_eq!(limit.settle(at(9_999)), []);
        let left_out = Said::LeftOut { lines: 15, thing: thing.clone(), message: message.clone() };
        assert_eq!(limit.settle(at(10_000)), [left_out]);
        assert_eq!(limit.settle(at(60_018)), []);
        assert_eq!(limit.settle(at(60_019)), [Said::Over { lines: 20, thing, message }]);
        assert_eq!(limit.settle(at(90_000)), []);
        // What failed once has nothing to recover from.
        limit.take(place("a"), "it failed", at(100_000));
        assert_eq!(limit.settle(at(200_000)), []);
    }

    #[test]
    fn the_things_that_are_told_apart_have_a_bound() {
        let limit = LineLimit(Mutex::new(None));
        let written = (0..3 * MOST).filter(|n| limit.take(place(&n.to_string()), "m", at(0)));
        assert_eq!(written.count(), MOST + BURST as usize);
        assert_eq!(limit.all().as_ref().expect("things").len(), MOST + 1);
    }
}
