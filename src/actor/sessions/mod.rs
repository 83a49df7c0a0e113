//! Sessions: what a node knows of them ([`known`], [`session_leases`], [`handovers`]), and what it does for them: it runs their
//! checks, ends their leases after their end, finds the leases of adopted ones, revokes what was not handed over in
//! time, and removes their records in the end.

mod ask_handover;
mod checks;
mod cleanup_task;
mod failing;
mod handovers;
mod indexing;
mod inquiries;
mod known;
mod late_handovers;
mod leases;
mod left_leases;
mod places;
mod probe;
mod progress;
mod read_session_leases;
mod reissues;
mod reported;
mod revoke;
mod service;
mod session;
mod session_leases;
mod tasks;
mod write_announced;

pub(in crate::actor) use self::checks::HealthChecks;
pub(in crate::actor) use self::reported::Due;
pub(crate) use self::{
    ask_handover::{ask_handover, ask_to_drain},
    read_session_leases::read_session_leases,
    revoke::revoke,
    tasks::start,
    write_announced::write_announced,
};
pub use self::{
    failing::{FailingCheck, FailingChecks},
    handovers::Handovers,
    known::Sessions,
    service::SessionService,
    session::Session,
};
