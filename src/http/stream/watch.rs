//! The ownership changes that a stream follows.
//!
//! Guarantees: the changes after the cursor in the answer to `watch` are sent in order, once each. A `reset` tells where
//! some are missing.

use std::task::{Context, Poll};

use actix_web::web;
use futures_util::{
    StreamExt as _,
    stream::{LocalBoxStream, unfold},
};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;

use super::message::{Answer, Outgoing};
use crate::{
    api::EventsQuery,
    http::{
        answer::Problem,
        app::App,
        events::{Filter, data_of, read_position, render, render_frozen, render_reset},
    },
    manager::{BusEvent, Setting, Subscriber},
    store::Position,
};

/// A subscription to the bus, from before its first answer.
pub struct Watch {
    app: web::Data<App>,
    filter: Filter,
    changes: LocalBoxStream<'static, Result<BusEvent, RecvError>>,
    /// The position of the latest change that was sent or passed over; `None` until `watch` is answered.
    position: Option<Position>,
}

/// The answer to `watch`: a page of events, and where it ends.
#[derive(Deserialize)]
struct Page<'a> {
    next: &'a str,
}

impl Watch {
    /// Subscribes. Nothing is sent before [`Watch::begin`].
    ///
    /// # Errors
    /// There are as many subscribers as may be.
    pub fn new(app: web::Data<App>, filter: Filter) -> Result<Self, Problem> {
        let subscriber = app.manager.subscribe();
        let subscriber = subscriber.map_err(|error| Problem::too_many_subscribers(error.0))?;
        let changes = unfold(subscriber, |mut subscriber: Subscriber| async move {
            let change = subscriber.changes.recv().await;
            Some((change, subscriber))
        });
        Ok(Self { app, filter, changes: changes.boxed_local(), position: None })
    }

    /// Begins after the events of the answer. Returns whether the call succeeded.
    pub fn begin(&mut self, answer: &Answer) -> bool {
        let page = serde_json::from_slice::<Page<'_>>(&answer.body).ok();
        let page = page.filter(|_| answer.status == 200);
        self.position = page.and_then(|page| read_position(&self.app, page.next));
        self.position.is_some()
    }

    /// Adds the next change. Returns whether there may be more; pending if there is none.
    pub fn poll(&mut self, context: &mut Context<'_>, outgoing: &mut Outgoing) -> Poll<bool> {
        let Some(position) = &mut self.position else { return Poll::Pending };
        let source = &self.app.source;
        let Poll::Ready(change) = self.changes.poll_next_unpin(context) else {
            return Poll::Pending;
        };
        match change {
            Some(Ok(BusEvent::Change(published))) => {
                let committed = &published.committed;
                if committed.position <= *position {
                    return Poll::Ready(true);
                }
                *position = committed.position;
                if self.filter.wants(&self.app.manager, committed) {
                    let rendered = published.rendered.get_or_init(|| {
                        render(source, &Setting::of(&self.app.manager, committed), committed)
                    });
                    outgoing.push_json("event", data_of(rendered));
                }
            }
            Some(Ok(BusEvent::Lost(resume))) => {
                *position = resume.after(*position);
                outgoing.push_json("reset", data_of(&render_reset(source, *position, "lost")));
            }
            Some(Ok(BusEvent::Frozen(why))) => {
                outgoing.push_json("frozen", data_of(&render_frozen(why.as_deref())));
            }
            Some(Err(RecvError::Lagged(_))) => {
                self.app.manager.count_dropped_subscriber();
                outgoing.push_json("reset", data_of(&render_reset(source, *position, "too-slow")));
                *position = self.app.manager.latest();
            }
            Some(Err(RecvError::Closed)) | None => return Poll::Ready(false),
        }
        Poll::Ready(true)
    }
}

/// Reads the parameters of `watch`: those of `events`, without what belongs to a page.
///
/// # Errors
/// One of them is not valid.
pub fn read_watch(query: &EventsQuery) -> Result<(), Problem> {
    let pages = [
        ("after", query.after.is_some()),
        ("format", query.format.is_some()),
        ("wait_ms", query.wait_ms.is_some()),
    ];
    match pages.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Problem::field(name, "belongs to a page of events: call `events`")),
        None => Ok(()),
    }
}
