//! How a call of a stream begins: answered at once, or to be waited for.

use bytes::Bytes;
use futures_util::{FutureExt as _, future::LocalBoxFuture};

use super::{InFlight, Talk};
use crate::{
    api,
    http::{
        answer::Problem,
        caller::Charged,
        events::Filter,
        request::parse_query,
        stream::{
            beat::Plain,
            beats::Batch,
            message::{Answer, Message},
            operations::{CANCEL, EVENTS, Operation, UNWATCH, WATCH, named},
            watch::{Watch, read_watch},
        },
    },
    lease::{Heartbeat, Moment},
    manager::Decided,
};

impl Talk {
    /// Begins a call that is charged. Returns its answer, and whether others depend on it; `None` if it is answered.
    pub(super) fn begin(
        &mut self,
        call: &Message<'_>,
        message: &Bytes,
        charged: Charged,
    ) -> Result<Option<(LocalBoxFuture<'static, Answer>, bool)>, Problem> {
        if call.op == UNWATCH {
            takes_only(call, &[])?;
            (self.watch, self.beginning) = (None, None);
            self.outgoing.answer(&Answer::ok(call.id, &serde_json::json!({})));
            return Ok(None);
        }
        if call.op == CANCEL {
            let given_up = self.cancel(call)?;
            let told = serde_json::json!({ "cancelled": given_up });
            self.outgoing.answer(&Answer::ok(call.id, &told));
            return Ok(None);
        }
        let is_watch = call.op == WATCH;
        let operation = named(if is_watch { EVENTS } else { &call.op })?;
        let keeps = operation.keeps();
        if !keeps && self.others >= self.open.calls() {
            return Err(Problem::too_many_calls(self.open.calls()));
        }
        if let Some(beat) = Plain::read(&self.calls, operation, call) {
            let later = self.beat(call.id, operation, &beat, message, charged);
            return Ok(later.map(|answer| (answer, keeps)));
        }
        if let Some(batch) = Batch::read(&self.calls, operation, call) {
            let reading = self.reading();
            if let Some(kept) = batch.keep(&self.calls, &self.app, reading) {
                self.caller.clone().charged(charged).is_about(batch.len());
                self.outgoing.verdicts(call.id, batch.verdicts(&kept));
                return Ok(None);
            }
        }
        if is_watch {
            self.watch = Some(self.watch(operation, call)?);
            self.beginning = Some(call.id);
        }
        let body =
            call.body.map_or_else(Bytes::new, |body| message.slice_ref(body.get().as_bytes()));
        let parameters = call.params.clone();
        let calls = self.calls.clone();
        let answer = calls.make(call.id, operation, parameters, body, charged);
        Ok(Some((answer.boxed_local(), keeps)))
    }

    /// Answers a plain heartbeat at once if nothing but a promise is to be made. Otherwise, the lease's actor answers.
    fn beat(
        &mut self,
        id: u64,
        operation: &'static Operation,
        beat: &Plain<'_>,
        message: &Bytes,
        charged: Charged,
    ) -> Option<LocalBoxFuture<'static, Answer>> {
        let (received, decided) = self.reading();
        let manager = &self.app.manager;
        let plain = Heartbeat::new(beat.lease_id);
        match manager.heartbeat_at_once(beat.key, &plain, received, decided) {
            Some(alive) => {
                self.calls.following.keep(beat.key, alive.token);
                self.outgoing.alive(id, &beat.kept(&alive));
                None
            }
            None => {
                let asked = beat.asked(id, operation, message, received, charged);
                Some(asked.answer(self.calls.clone(), self.app.clone()).boxed_local())
            }
        }
    }

    /// When what is being read arrived, and a reading of the clock for its promises.
    fn reading(&mut self) -> (Moment, Decided) {
        let manager = &self.app.manager;
        *self.reading.get_or_insert_with(|| {
            let received = manager.now();
            (received, manager.decide())
        })
    }

    /// Subscribes to what the parameters of a `watch` select.
    fn watch(&self, operation: &Operation, call: &Message<'_>) -> Result<Watch, Problem> {
        let target = operation.target(call.params.clone())?;
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let mut query: api::EventsQuery = parse_query(query)?;
        // A stream asks for a page, whose form it does not choose.
        query.format = query.format.filter(|_| call.params.contains_key("format"));
        read_watch(&query)?;
        Watch::new(self.app.clone(), Filter::of(self.caller.clone(), &query)?)
    }

    /// Gives up the call that the parameter `call` names, as if its caller had hung up. Returns whether it was in flight.
    fn cancel(&mut self, call: &Message<'_>) -> Result<bool, Problem> {
        takes_only(call, &["call"])?;
        let of = call.params.get("call").and_then(serde_json::Value::as_u64);
        let of = of.ok_or_else(|| Problem::field("call", "must be the id of a call"))?;
        let given_up = self.forget(of);
        if let Some(InFlight { abort, .. }) = &given_up {
            abort.abort();
        }
        Ok(given_up.is_some())
    }
}

/// Refuses a call of the stream's own that has a body, or parameters other than these.
fn takes_only(call: &Message<'_>, names: &[&str]) -> Result<(), Problem> {
    if let Some(other) = call.params.keys().find(|name| !names.contains(&name.as_str())) {
        let detail = format!("unknown parameter `{other}`");
        return Err(Problem::malformed(detail, Some(other.clone())));
    }
    match call.body {
        Some(_) => {
            let detail = format!("{} takes no body", call.op);
            Err(Problem::malformed(detail, Some("body".to_owned())))
        }
        None => Ok(()),
    }
}
