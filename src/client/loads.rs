//! The loads that a session reports with its heartbeats.

use std::{
    collections::BTreeMap,
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
    limit: Option<f64>,
}

impl Loads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, key: &str, load: f64) {
        self.state().by_key.insert(key.to_owned(), within(load));
    }

    pub fn limit(&self, limit: f64) {
        self.state().limit = Some(within(limit));
    }

    pub fn forget(&self, key: &str) {
        self.state().by_key.remove(key);
    }

    /// The heartbeat with the loads: the heaviest, if there is no room for all.
    pub fn report(&self, body: BeatBody) -> BeatBody {
        let state = self.state();
        let mut loads: Vec<_> = state.by_key.iter().collect();
        loads.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut left = MAX_REPORT_BYTES;
        let fits = |(key, _): &(&String, &f64)| {
            let bytes = bytes_of(key);
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        };
        let loads = loads.into_iter().take_while(fits);
        let loads = loads.map(|(key, load)| (key.clone(), *load)).collect();
        BeatBody { loads, load_limit: state.limit, ..body }
    }
}

/// A load that servers accept. No load is infinite, and what is no number is 0.
fn within(load: f64) -> f64 {
    load.max(0.0).min(MAX_LOAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_loads_are_reported_if_there_is_no_room_for_all() {
        let loads = Loads::default();
        (0..2_000_u16).for_each(|at| loads.set(&format!("k/{at}"), at.into()));
        loads.set("odd", f64::NAN);
        loads.limit(f64::INFINITY);
        let body = loads.report(BeatBody::default());
        assert!((400..700).contains(&body.loads.len()), "{}", body.loads.len());
        assert!(body.loads.contains_key("k/1999") && !body.loads.contains_key("k/0"));
        assert_eq!(body.load_limit, Some(MAX_LOAD));
        (0..2_000_u16).for_each(|at| loads.forget(&format!("k/{at}")));
        let left = loads.report(BeatBody::default()).loads;
        assert_eq!(left, BTreeMap::from([("odd".to_owned(), 0.0)]));
    }
}
