//! Plain heartbeats, which most messages of a stream are. They pass no router and no request of their own.
//!
//! Guarantees: a heartbeat that is answered here is read, charged, kept and refused by the same functions as one by
//! HTTP. Every other one, such as one that the caller has no right to, is made as a call.

use std::rc::Rc;

use actix_web::web;
use bytes::Bytes;
use futures_util::{FutureExt as _, future::LocalBoxFuture};

use super::{
    calls::Calls,
    message::{Answer, Beat, Message},
    operations::{Operation, Parameters},
};
use crate::{
    access::Verb,
    api::HeartbeatAnswer,
    http::{answer::Problem, app::App, request::held},
    lease::{Heartbeat, LeaseId, Moment},
    manager::{CallError, HolderError},
};

/// The operation, by its name.
const HEARTBEAT: &str = "heartbeat";

impl Calls {
    /// The answer to a plain heartbeat; `None` for any other call.
    ///
    /// # Errors
    /// The caller calls more often than it may.
    pub fn beat(
        self: &Rc<Self>,
        app: &web::Data<App>,
        operation: &'static Operation,
        call: &Message<'_>,
        message: &Bytes,
    ) -> Option<Result<LocalBoxFuture<'static, Answer>, Problem>> {
        if operation.name != HEARTBEAT || !call.params.is_empty() {
            return None;
        }
        let body = call.body?.get();
        let Beat { key, lease_id } = serde_json::from_str(body).ok()?;
        let caller = &self.within.caller;
        caller.has(Verb::Hold).ok()?;
        let lease_id = held(caller, key, lease_id).ok()?;
        if let Err(problem) = app.door.charge_heartbeat(caller, self.peer.map(|peer| peer.ip())) {
            return Some(Err(problem));
        }
        let plain = Plain {
            id: call.id,
            operation,
            received: app.manager.now(),
            lease_id,
            key: message.slice_ref(key.as_bytes()),
            body: message.slice_ref(body.as_bytes()),
        };
        Some(Ok(plain.answer(self.clone(), app.clone()).boxed_local()))
    }
}

/// A heartbeat of which no more is to be checked.
struct Plain {
    id: u64,
    operation: &'static Operation,
    received: Moment,
    lease_id: LeaseId,
    key: Bytes,
    body: Bytes,
}

impl Plain {
    async fn answer(self, calls: Rc<Calls>, app: web::Data<App>) -> Answer {
        // It is a part of a message that was read as text.
        let key = std::str::from_utf8(&self.key).unwrap_or_default();
        let beat = Heartbeat::new(self.lease_id);
        match app.manager.heartbeat(key, beat, self.received).await {
            Ok(alive) => {
                calls.following.keep(key, alive.token);
                let answer = HeartbeatAnswer {
                    key,
                    token: alive.token.0,
                    valid_for_ms: alive.valid_for_ms,
                    revived: alive.revived,
                    notices: [],
                };
                Answer::ok(self.id, &answer)
            }
            // The call is forwarded as one by HTTP is. This node did nothing.
            Err(HolderError::Call(CallError::Elsewhere(_))) => {
                calls.make(self.id, self.operation, Parameters::new(), self.body).await
            }
            Err(error) => Answer::problem(self.id, &Problem::holder(&error, &app, key)),
        }
    }
}
