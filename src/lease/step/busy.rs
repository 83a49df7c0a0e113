//! The state that an idle lease does not need.

use std::collections::VecDeque;

use super::{flight::Flight, waiters::Waiters};
use crate::lease::{
    message::{Call, FenceReport, SessionOver, StoreError},
    primitives::{Moment, Token},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Busy<C> {
    pub(super) waiters: Waiters<C>,
    pub(super) deferred: VecDeque<Call<C>>,
    pub(super) flight: Option<Flight<C>>,
    pub(super) retry_at: Moment,
    /// Why the store refused the latest write. A caller whose deadline passes gets this as its error.
    pub(super) store_error: Option<StoreError>,
    /// What is known of the record is being compared with the store: a look.
    pub(super) looking: bool,
    /// When the last look began.
    pub(super) looked: Moment,
    /// A write was sent during the look.
    pub(super) crossed: bool,
    /// The highest number of a change that another node is said to have made.
    pub(super) stale: u64,
    /// The fences that plugins are running: the tenure's token, and the plugin.
    pub(super) running: Vec<(Token, Box<str>)>,
    /// The fences among those that failed for good which an administrator wants to run once more.
    pub(super) retried: Vec<(Token, Box<str>)>,
    /// The fences that plugins have run and that are not written yet.
    pub(super) reports: VecDeque<FenceReport>,
    /// The end of the session that keeps the tenure.
    pub(super) over: Option<SessionOver>,
}

impl<C> Default for Busy<C> {
    fn default() -> Self {
        Self {
            waiters: Waiters::default(),
            deferred: VecDeque::new(),
            flight: None,
            retry_at: Moment::ZERO,
            store_error: None,
            looking: false,
            looked: Moment::ZERO,
            crossed: false,
            stale: 0,
            running: Vec::new(),
            retried: Vec::new(),
            reports: VecDeque::new(),
            over: None,
        }
    }
}
