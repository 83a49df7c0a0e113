//! The lease actors, one for each key in memory. They carry out what the core (`crate::lease`) decides.
//!
//! Guarantees: the effects of a step are performed in the order in which the core returned them, before the actor
//! handles other mail.

mod actor;
mod context;
mod fences;
mod home;
mod loading;
mod mailbox;
mod steps;
mod stuck;
mod tenure;
mod timer;
mod traced;
mod traces;

use std::sync::Weak;

use self::actor::LeaseActor;
use super::{
    coordinator::Coordinator,
    runtime::{
        arbiters::Seat,
        registry::{Birth, StartActor},
    },
};

/// Starts the lease actors of a coordinator.
pub(crate) fn lease_actors(coordinator: Weak<Coordinator>) -> StartActor {
    Box::new(move |birth: Birth<'_>| {
        let Birth { exit_notice, restarted, seat } = birth;
        let actor = LeaseActor::new(coordinator.upgrade()?, restarted, exit_notice);
        let address = match seat {
            Seat::Here => context::start(actor),
            Seat::On(arbiter) => context::start_on(arbiter, actor),
        };
        Some(address.recipient())
    })
}
