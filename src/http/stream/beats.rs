//! Batches of heartbeats that can be answered at once. They pass no router and no request of their own.
//!
//! Guarantees: a batch that is answered here is read, kept and refused by the same functions as one by HTTP.
//! Every other one, such as one with a lease whose actor must answer, is made as a call, which keeps its leases again.

use actix_web::web;
use serde::Deserialize;

use super::{
    calls::Calls,
    message::{Beat, Message},
    operations::Operation,
};
use crate::{
    access::Verb,
    api::{Object, Verdict, limits::MAX_BATCH},
    http::{app::App, request::held, views::kept},
    lease::{LeaseId, Moment},
    manager::{Alive, Decided},
};

/// The operation, by its name.
const HEARTBEATS: &str = "heartbeats";

/// The body of a batch, as a part of its message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    leases: Vec<Object<Beat<'a>>>,
}

/// A batch of heartbeats of which no more is to be checked: the keys, and what proves who holds them.
pub struct Batch<'a>(Vec<(&'a str, LeaseId)>);

impl<'a> Batch<'a> {
    /// Reads a batch; `None` for any other call.
    pub fn read(calls: &Calls, operation: &Operation, call: &Message<'a>) -> Option<Self> {
        if operation.name != HEARTBEATS || !call.params.is_empty() {
            return None;
        }
        let Object(Body { leases }) = serde_json::from_str(call.body?.get()).ok()?;
        let caller = &calls.within.caller;
        caller.has(Verb::Hold).ok().filter(|()| leases.len() <= MAX_BATCH)?;
        let read = |Object(Beat { key, lease_id })| Some((key, held(caller, key, lease_id).ok()?));
        leases.into_iter().map(read).collect::<Option<_>>().map(Self)
    }

    /// How many leases it is about.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps all leases of the batch. `None`: an actor must be asked about one of them at least.
    pub fn keep(
        &self,
        calls: &Calls,
        app: &web::Data<App>,
        (received, decided): (Moment, Decided),
    ) -> Option<Vec<Alive>> {
        let kept = app.manager.heartbeats_at_once(&self.0, received, decided)?;
        let mut follower = calls.following.0.borrow_mut();
        self.0.iter().zip(&kept).for_each(|((key, _), alive)| follower.keep(key, alive.token));
        Some(kept)
    }

    /// The verdict on each lease that was kept.
    pub fn verdicts<'b>(&'b self, alive: &'b [Alive]) -> impl Iterator<Item = Verdict<'b>> {
        self.0.iter().zip(alive).map(|((key, _), alive)| kept(key, alive))
    }
}
