//! How many lines one caller may fill.
//!
//! Guarantees: the lines of one principal, and of all callers without one, have a bound for refusals, one for reads and one
//! for orders that changed nothing because of an error of the caller.
//! Calls beyond it are counted, by principal and with their time span, and take no place in the queue.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::entry::{AuditEntry, AuditEvent, Many};
use crate::{access::Broken, lease::Moment};

/// How many lines there may be at once of one principal.
const AT_ONCE: u64 = 200;
/// How many lines there may be at once of all callers without a principal together.
const UNKNOWN_AT_ONCE: u64 = 1000;
/// How many more there may be with each second.
const PER_SECOND: u64 = 20;
/// The same for orders that changed nothing: an administrator may go through many keys of which some are free.
const ORDERS_AT_ONCE: u64 = 2000;
const ORDERS_PER_SECOND: u64 = 200;
/// The number of buckets. An access file has fewer principals as a rule; beyond it, principals share one bucket.
const BUCKETS: usize = 4096;

/// The budgets of all callers.
#[derive(Default)]
pub(super) struct Budgets(Mutex<HashMap<Who, Bucket>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Who {
    event: AuditEvent,
    principal: Option<Arc<str>>,
}

struct Bucket {
    left: u64,
    since: Moment,
    /// The calls that are counted and have no line yet: their number, and the times of the first and of the last.
    more: Option<(u64, u64, u64)>,
}

impl Who {
    fn at_once(&self) -> u64 {
        match (self.event, &self.principal) {
            (AuditEvent::Change, _) => ORDERS_AT_ONCE,
            (_, Some(_)) => AT_ONCE,
            (_, None) => UNKNOWN_AT_ONCE,
        }
    }

    fn per_second(&self) -> u64 {
        if self.event == AuditEvent::Change { ORDERS_PER_SECOND } else { PER_SECOND }
    }
}

impl Bucket {
    fn refill(&mut self, now: Moment, who: &Who) {
        let seconds = now.since(self.since).as_secs();
        if seconds > 0 {
            self.since = self.since + Duration::from_secs(seconds);
            let more = seconds.saturating_mul(who.per_second());
            self.left = more.saturating_add(self.left).min(who.at_once());
        }
    }
}

impl Budgets {
    /// Whether a call that changed nothing may have a line of its own. If not, it is counted.
    pub(super) fn take(&self, entry: &AuditEntry, now: Moment, wall_ms: u64) -> bool {
        let mut who = Who { event: entry.event, principal: entry.principal.clone() };
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS && !buckets.contains_key(&who) {
            who.principal = Some(Arc::from("(several principals)"));
        }
        let full = || Bucket { left: who.at_once(), since: now, more: None };
        let bucket = buckets.entry(who.clone()).or_insert_with(full);
        bucket.refill(now, &who);
        if bucket.left > 0 || Broken::RefusalsWithoutBound.is_active() {
            bucket.left = bucket.left.saturating_sub(1);
            return true;
        }
        let (count, _, last_ms) = bucket.more.get_or_insert((0, wall_ms, wall_ms));
        (*count, *last_ms) = (*count + 1, wall_ms);
        false
    }

    /// The calls that were counted since the last time. Forgets callers whose budget is full again.
    pub(super) fn counted(&self, now: Moment) -> Vec<Many> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        buckets.retain(|who, bucket| {
            if let Some((count, since_ms, until_ms)) = bucket.more.take() {
                let Who { event, principal } = who.clone();
                found.push(Many { event, principal, count, since_ms, until_ms });
            }
            bucket.refill(now, who);
            bucket.left < who.at_once()
        });
        found
    }
}
