//! The checks of sessions whose latest rounds failed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    clock::{DashMap, dash_map},
    lease::{Moment, Nonce, Owner},
};

/// A check whose latest rounds failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingCheck {
    /// The digest of the session.
    pub session: Nonce,
    /// The owner of the session.
    pub owner: Owner,
    /// The kind of the check: `http`, `tcp`, `exec` or `progress`.
    pub kind: &'static str,
    /// How many rounds in a row failed.
    pub failures: u32,
    /// How many end the session.
    pub fail_after: u32,
    /// When the first of these rounds failed.
    pub since: Moment,
    /// Why the last one failed.
    pub why: Box<str>,
}

/// The checks whose latest rounds failed.
pub struct FailingChecks {
    /// By number.
    failing: DashMap<u64, FailingCheck>,
    checks: AtomicU64,
}

impl Default for FailingChecks {
    fn default() -> Self {
        Self { failing: dash_map(), checks: AtomicU64::new(0) }
    }
}

impl FailingChecks {
    /// A check that passes so far.
    pub fn begin(self: &Arc<Self>) -> CheckState {
        let number = self.checks.fetch_add(1, Ordering::Relaxed);
        CheckState { of: self.clone(), number, since: None }
    }

    /// The checks that fail, the longest first; `most` of them at most, and how many there are.
    #[must_use]
    pub fn list(&self, most: usize) -> (Vec<FailingCheck>, usize) {
        let mut all: Vec<_> = self.failing.iter().map(|one| one.value().clone()).collect();
        let count = all.len();
        all.sort_unstable_by_key(|one| (one.since, one.session));
        all.truncate(most);
        (all, count)
    }
}

/// Whether a check fails. When it is dropped, the check is over.
pub struct CheckState {
    of: Arc<FailingChecks>,
    number: u64,
    since: Option<Moment>,
}

impl CheckState {
    /// A round passed.
    pub fn passed(&mut self) {
        if self.since.take().is_some() {
            self.of.failing.remove(&self.number);
        }
    }

    /// A round failed. Of its `since`, that of the first in the row counts.
    pub fn failed(&mut self, check: FailingCheck) {
        let since = *self.since.get_or_insert(check.since);
        self.of.failing.insert(self.number, FailingCheck { since, ..check });
    }
}

impl Drop for CheckState {
    fn drop(&mut self) {
        self.passed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(session: u128, at: u64, failures: u32) -> FailingCheck {
        FailingCheck {
            session: Nonce(session),
            owner: Owner::new("w").expect("an owner"),
            kind: "tcp",
            failures,
            fail_after: 3,
            since: Moment(at),
            why: "refused".into(),
        }
    }

    #[test]
    fn a_check_is_listed_from_its_first_failure_until_it_passes_or_is_over() {
        let checks = Arc::<FailingChecks>::default();
        let (mut one, mut two) = (checks.begin(), checks.begin());
        one.passed();
        assert_eq!(checks.list(9).1, 0);
        two.failed(check(2, 5, 1));
        one.failed(check(1, 6, 1));
        two.failed(check(2, 7, 2));
        let (found, count) = checks.list(1);
        assert_eq!((found, count), (vec![FailingCheck { since: Moment(5), ..check(2, 7, 2) }], 2));
        two.passed();
        assert_eq!(checks.list(9).0, [check(1, 6, 1)]);
        two.failed(check(2, 9, 1));
        assert_eq!(checks.list(9).0[1].since, Moment(9), "another row of failures");
        drop((one, two));
        assert_eq!(checks.list(9).1, 0);
    }
}
