//! Plain heartbeats, which most messages of a stream are. They pass no router and no request of their own.
//!
//! Guarantees: a heartbeat that is answered here is read, kept and refused by the same functions as one by HTTP. Every
//! other one, such as one that the caller has no right to, is made as a call.
//!
//! Assumes: the stream has charged it.

use std::rc::Rc;

use actix_web::web;
use bytes::Bytes;

use super::{
    calls::Calls,
    message::{Answer, Beat, Message},
    operations::{Operation, Parameters},
};
use crate::{
    access::Verb,
    api::{HeartbeatAnswer, Object},
    http::{answer::Problem, app::App, caller::Charged, request::held},
    lease::{Heartbeat, LeaseId, Moment},
    manager::{Alive, CallError, HolderError},
};

/// The operation, by its name.
const HEARTBEAT: &str = "heartbeat";

/// A plain heartbeat of which no more is to be checked.
pub struct Plain<'a> {
    pub key: &'a str,
    pub lease_id: LeaseId,
    /// The body, as it was sent.
    body: &'a str,
}

impl<'a> Plain<'a> {
    /// Reads a plain heartbeat; `None` for any other call.
    pub fn read(calls: &Calls, operation: &Operation, call: &Message<'a>) -> Option<Self> {
        if operation.name != HEARTBEAT || !call.params.is_empty() {
            return None;
        }
        let body = call.body?.get();
        let Object(Beat { key, lease_id }) = serde_json::from_str(body).ok()?;
        let caller = &calls.within.caller;
        caller.has(Verb::Hold).ok()?;
        let lease_id = held(caller, key, lease_id).ok()?;
        Some(Self { key, lease_id, body })
    }

    /// The document that tells that the lease was kept.
    pub fn kept(&self, alive: &Alive) -> HeartbeatAnswer<'a> {
        kept(self.key, alive)
    }

    /// The heartbeat as a part of its message, to be answered by the lease's actor.
    pub fn asked(
        &self,
        id: u64,
        operation: &'static Operation,
        message: &Bytes,
        received: Moment,
        charged: Charged,
    ) -> Asked {
        Asked {
            id,
            charged,
            operation,
            received,
            lease_id: self.lease_id,
            key: message.slice_ref(self.key.as_bytes()),
            body: message.slice_ref(self.body.as_bytes()),
        }
    }
}

fn kept<'a>(key: &'a str, alive: &Alive) -> HeartbeatAnswer<'a> {
    let Alive { token, valid_for_ms, revived } = *alive;
    HeartbeatAnswer { key, token: token.0, valid_for_ms, revived, notices: [] }
}

/// A plain heartbeat that the lease's actor answers.
pub struct Asked {
    id: u64,
    charged: Charged,
    operation: &'static Operation,
    received: Moment,
    lease_id: LeaseId,
    key: Bytes,
    body: Bytes,
}

impl Asked {
    /// The actor's answer, or that of another node.
    pub async fn answer(self, calls: Rc<Calls>, app: web::Data<App>) -> Answer {
        // It is a part of a message that was read as text.
        let key = std::str::from_utf8(&self.key).unwrap_or_default();
        let beat = Heartbeat::new(self.lease_id);
        match app.manager.heartbeat(key, beat, self.received).await {
            Ok(alive) => {
                calls.following.keep(key, alive.token);
                Answer::ok(self.id, &kept(key, &alive))
            }
            // The call is forwarded as one by HTTP is. This node did nothing.
            Err(HolderError::Call(CallError::Elsewhere(_))) => {
                calls
                    .make(self.id, self.operation, Parameters::new(), self.body, self.charged)
                    .await
            }
            Err(error) => Answer::problem(self.id, &Problem::holder(&error, &app, key)),
        }
    }
}
