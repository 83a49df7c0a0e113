//! What the agent hears from its campaign and its scripts.

use std::sync::Arc;

use crate::{
    client::{Lease, Loss},
    lease::Moment,
    worker::guard::Input,
};

/// An event for the agent.
#[derive(Debug)]
pub(super) enum Event {
    Input(Input),
    /// News of the campaign with this number.
    Of(u64, News),
    /// The guardian ran the will of the activation with this number.
    WillRan(u64),
    Refused(String),
    NotReleased(String),
}

/// News of a lease.
#[derive(Debug)]
pub(super) enum News {
    Granted(Arc<Lease>),
    Renewed(Moment),
    Lost(Loss),
}
