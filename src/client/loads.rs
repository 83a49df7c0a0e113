//! The loads that a session reports with its heartbeats.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    api::BeatBody,
    lease::reports::{MAX_LOAD, MAX_REPORT_BYTES, bytes_of},
};

#[derive(Default)]
pub(super) struct Loads(Mutex<State>);

#[derive(Default)]
struct State {
    by_key: BTreeMap<String, f64>,
    /// Those that were reported.
    reported: BTreeSet<String>,
    /// The limit, once one was set.
    limit: Option<Option<f64>>,
}

impl Loads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, key: &str, load: f64) {
        self.state().by_key.insert(key.to_owned(), within(load));
    }

    pub fn limit(&self, limit: Option<f64>) {
        self.state().limit = Some(limit.map(within));
    }

    pub fn forget(&self, key: &str) {
        self.state().by_key.remove(key);
    }

    /// The heartbeat with the loads: the heaviest, if there is no room for all. Those that were reported before and are
    /// not any more are removed.
    pub fn report(&self, body: BeatBody) -> BeatBody {
        let state = &mut *self.state();
        let mut loads: Vec<_> = state.by_key.iter().collect();
        loads.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut left = MAX_REPORT_BYTES;
        let fits = |(key, _): &(&String, &f64)| {
            let bytes = bytes_of(key);
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        };
        let loads: Vec<_> = loads.into_iter().take_while(fits).collect();
        let mut loads: BTreeMap<String, Option<f64>> =
            loads.into_iter().map(|(key, load)| (key.clone(), Some(*load))).collect();
        let reported = loads.keys().cloned().collect();
        for gone in std::mem::replace(&mut state.reported, reported) {
            loads.entry(gone).or_default();
        }
        let loads = (!loads.is_empty()).then_some(loads);
        BeatBody { loads, load_limit: state.limit, ..body }
    }
}

/// A load that servers accept. No load is infinite, and what is no number is 0.
pub(super) fn within(load: f64) -> f64 {
    if load.is_nan() { 0.0 } else { load.clamp(0.0, MAX_LOAD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_loads_are_reported_if_there_is_no_room_for_all() {
        let loads = Loads::default();
        (0..2_000_u16).for_each(|at| loads.set(&format!("k/{at}"), at.into()));
        loads.set("odd", f64::NAN);
        loads.limit(Some(f64::INFINITY));
        let body = loads.report(BeatBody::default());
        let first = body.loads.expect("loads");
        assert!((400..700).contains(&first.len()), "{}", first.len());
        assert!(first["k/1999"] == Some(1999.0) && !first.contains_key("k/0"));
        assert_eq!(body.load_limit, Some(Some(MAX_LOAD)));
        // A key that is light now makes room for another one, and is removed.
        loads.set("k/1999", 0.0);
        let second = loads.report(BeatBody::default()).loads.expect("loads");
        assert!(second["k/1999"].is_none() && second.len() == first.len() + 1);
        (0..2_000_u16).for_each(|at| loads.forget(&format!("k/{at}")));
        let left = loads.report(BeatBody::default()).loads.expect("loads");
        assert!(left["odd"] == Some(0.0) && left.values().flatten().count() == 1);
        let left = loads.report(BeatBody::default()).loads.expect("loads");
        assert_eq!(left, BTreeMap::from([("odd".to_owned(), Some(0.0))]));
    }
}
