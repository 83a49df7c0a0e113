//! What the agent hears from its campaign and its scripts.

use std::sync::Arc;

use crate::{
    client::{Lease, Loss},
    lease::Moment,
    worker::guard::Input,
};

#[derive(Debug)]
pub(super) enum Event {
    Input(Input),
    /// CampaignEvent of the campaign with this number.
    Of(u64, CampaignEvent),
    /// The guardian ran the will of the activation with this number.
    WillRan(u64),
    Refused(String),
    NotReleased(String),
}

#[derive(Debug)]
pub(super) enum CampaignEvent {
    Granted(Arc<Lease>),
    Renewed(Moment),
    Lost(Loss),
}
