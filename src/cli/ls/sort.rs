//! The order of the rows.

use std::cmp::Ordering;

use clap::ValueEnum;

use super::columns::text_of;
use crate::client::LeaseView;

/// By what the rows are ordered. What is not known comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SortBy {
    /// The key, in byte order
    Key,
    /// The state
    State,
    /// The owner
    Owner,
    /// The highest token first
    Token,
    /// The longest tenure first
    HeldFor,
    /// What expires soonest first
    ExpiresIn,
    /// The longest queue first
    Waiters,
    /// The pool
    Pool,
    /// The node
    Node,
}

/// The leases in this order, and in the order of their keys where that leaves it open.
pub(super) fn sorted(mut leases: Vec<LeaseView>, by: SortBy, reverse: bool) -> Vec<LeaseView> {
    leases.sort_by(|a, b| compare(by, a, b).then_with(|| a.key.cmp(&b.key)));
    if reverse {
        leases.reverse();
    }
    leases
}

fn compare(by: SortBy, a: &LeaseView, b: &LeaseView) -> Ordering {
    match by {
        SortBy::Key => a.key.cmp(&b.key),
        SortBy::State => a.state.cmp(&b.state),
        SortBy::Owner => rising(a.owner.as_ref(), b.owner.as_ref()),
        SortBy::Token => b.token.cmp(&a.token),
        // All times have one form, so that they compare as texts.
        SortBy::HeldFor => rising(began(a), began(b)),
        SortBy::ExpiresIn => rising(a.expires_in_ms, b.expires_in_ms),
        SortBy::Waiters => b.waiters.cmp(&a.waiters),
        SortBy::Pool => rising(text_of(a, "pool"), text_of(b, "pool")),
        SortBy::Node => rising(text_of(a, "node"), text_of(b, "node")),
    }
}

fn began(lease: &LeaseView) -> Option<&String> {
    lease.acquired_at.as_ref().filter(|_| lease.state == "held")
}

/// The smallest first, and nothing last.
fn rising<T: Ord>(a: Option<T>, b: Option<T>) -> Ordering {
    a.is_none().cmp(&b.is_none()).then_with(|| a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(by: SortBy, reverse: bool) -> String {
        let lease = |key: &str, began: Option<&str>, expires_in_ms, waiters| LeaseView {
            key: key.into(),
            state: if began.is_some() { "held" } else { "free" }.into(),
            acquired_at: began.map(str::to_owned),
            expires_in_ms,
            waiters: Some(waiters),
            ..LeaseView::default()
        };
        let leases = vec![
            lease("a", None, None, 0),
            lease("b", Some("2026-11-22T00:00:00.000Z"), Some(10), 1),
            lease("c", Some("2026-11-21T00:00:00.000Z"), Some(20), 1),
        ];
        sorted(leases, by, reverse).iter().map(|lease| lease.key.as_str()).collect()
    }

    #[test]
    fn rows_are_ordered_by_what_a_person_looks_for_first() {
        assert_eq!(keys(SortBy::Key, false), "abc");
        assert_eq!(keys(SortBy::HeldFor, false), "cba");
        assert_eq!(keys(SortBy::ExpiresIn, false), "bca");
        assert_eq!(keys(SortBy::ExpiresIn, true), "acb");
        assert_eq!(keys(SortBy::Waiters, false), "bca");
        assert_eq!(keys(SortBy::State, false), "abc");
    }
}
