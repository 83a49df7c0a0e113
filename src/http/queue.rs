//! Waiting in the one queue of a lease, at the node where it is at home.
//!
//! Guarantees: who waits is served in the order in which the first node received the calls, as far as the nodes'
//! clocks run alike; a call whose home may have granted it without an answer is told to come again
//! (`home-unreachable`), never that it was refused.
//!
//! Does not guarantee: that order while the home cannot be reached, and in the milliseconds in which the queue moves
//! to another home; one queue for those who wait on several keys.
//!
//! Assumes: as in [`super::forward`].

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::Bytes;

use super::{
    forward::{ANSWER, respond, send},
    problem::Problem,
    seal::was_forwarded,
    server::App,
};
use crate::{
    lease::Moment,
    manager::{Asked, Home},
};

/// On such an acquire: a place in the queue is asked for, and the caller is granted the key where it came from.
pub const PLACE: &str = "x-tenure-place";
/// On such a request that may wait: for how many milliseconds it waited elsewhere.
pub const WAITED: &str = "x-tenure-waited-ms";
/// On the answer to such a request: the lease has yet another home.
const MOVED: &str = "x-tenure-moved";
/// Before it is asked again once more: nodes hear of a home's move one after the other.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a call that has no time to wait is tried, while its lease moves from home to home.
const TRIES: u32 = 3;

/// What became of a call that waited at another node.
pub enum Queued {
    /// Its turn has come: the key is kept for its owner.
    Turn,
    /// That node answered.
    Answered(HttpResponse),
    /// The lease has yet another home.
    Moved,
    /// That node cannot be reached, or takes no work.
    OwnerUnreachable,
}

/// A call that may wait, and how long it waited.
pub struct Waiting {
    received: Moment,
    until: Moment,
    tries: u32,
    /// How often in a row it was sent on.
    moves: u32,
    /// Only that node can grant what is asked for.
    there: bool,
    /// A node that was asked may have granted it, and its answer was lost.
    doubt: bool,
}

impl Waiting {
    /// From the moment at which the first node received it.
    pub fn of(request: &HttpRequest, app: &App, wait: Duration) -> Self {
        let waited = request.headers().get(WAITED).filter(|_| was_forwarded(request));
        let waited = waited.and_then(|ms| ms.to_str().ok()?.parse().ok());
        let waited = Duration::from_millis(waited.unwrap_or(0)).min(wait);
        Self::since(app.manager.now() - waited, wait)
    }

    /// From the moment at which it was received.
    pub fn since(received: Moment, wait: Duration) -> Self {
        Self { received, until: received + wait, tries: 0, moves: 0, there: false, doubt: false }
    }

    /// How it is asked next, after a pause where the lease moves; `None` when its time is over.
    pub async fn again(&mut self, app: &App, queued: &Queued) -> Option<Asked> {
        self.tries += 1;
        if app.manager.now() >= self.until && self.tries >= TRIES {
            return None;
        }
        self.moves = if matches!(queued, Queued::Moved) { self.moves + 1 } else { 0 };
        if self.moves > 1 {
            tokio::time::sleep(PAUSE).await;
        }
        Some(Asked {
            received: self.received,
            owner_unreachable: matches!(queued, Queued::OwnerUnreachable),
        })
    }

    /// When it was received.
    pub fn asked(&self) -> Asked {
        self.received.into()
    }

    /// Takes a place in another node's queue for a caller that is granted the key here.
    pub async fn take_place(
        &mut self,
        request: &HttpRequest,
        app: &App,
        home: &Home,
        body: Bytes,
    ) -> Queued {
        let carried = app.forwarder.request(request, home, body);
        let queued =
            self.send(request, app, home, carried.map(|carried| carried.header(PLACE, "1"))).await;
        // Nothing is granted there.
        self.doubt = false;
        queued
    }

    async fn send(
        &mut self,
        request: &HttpRequest,
        app: &App,
        home: &Home,
        carried: Option<reqwest::RequestBuilder>,
    ) -> Queued {
        let Some(carried) = carried else { return Queued::OwnerUnreachable };
        let now = app.manager.now();
        let waited = now.since(self.received).as_millis().to_string();
        let left = self.until.since(now);
        // A session's home asks for a place at the lease's.
        let limit = if left.is_zero() { ANSWER } else { left + 2 * ANSWER };
        let carried = carried.header(WAITED, waited).timeout(limit);
        let answer = tokio::select! {
            answer = send(app, home, carried) => answer.map_err(|error| !error.is_connect()),
            // It may have stopped with the connection open.
            () = app.manager.gone(home.node) => Err(true),
        };
        let queued = match answer {
            Err(sent) => {
                self.doubt |= sent;
                return Queued::OwnerUnreachable;
            }
            Ok(answer) if answer.headers().contains_key(MOVED) => Queued::Moved,
            Ok(answer) if answer.status().as_u16() == 204 => Queued::Turn,
            Ok(answer) if answer.status().is_server_error() && !self.there => {
                Queued::OwnerUnreachable
            }
            Ok(answer) => {
                let answered = respond(request, home, answer).await;
                answered.map_or(Queued::OwnerUnreachable, Queued::Answered)
            }
        };
        self.doubt |= matches!(queued, Queued::OwnerUnreachable);
        queued
    }
}

/// [`act_at_home`](super::forward::act_at_home) of a call that may wait for so long, in the one queue of its lease:
/// where the home cannot be reached, it waits here. Under a session, only that session's home can grant it.
pub async fn wait_at_home(
    request: &HttpRequest,
    app: &App,
    body: &Bytes,
    wait: Duration,
    in_session: bool,
    act: impl AsyncFn(Asked) -> Result<HttpResponse, Problem>,
) -> HttpResponse {
    let mut waiting = Waiting { there: in_session, ..Waiting::of(request, app, wait) };
    let mut asked = waiting.asked();
    let mut unheard = None;
    loop {
        let problem = match act(asked).await {
            Ok(response) => return response,
            Err(problem) => problem,
        };
        let Some(home) = problem.home().filter(|_| !asked.owner_unreachable) else {
            return unheard.filter(|_| waiting.doubt).unwrap_or(problem).respond(request);
        };
        if was_forwarded(request) {
            return moved(problem.respond(request));
        }
        let carried = app.forwarder.request(request, home, body.clone());
        let queued = match waiting.send(request, app, home, carried).await {
            Queued::Answered(response) => return response,
            queued => queued,
        };
        match waiting.again(app, &queued).await {
            Some(again) => asked = again,
            None => return problem.respond(request),
        }
        unheard = Some(problem);
    }
}

/// The answer to a call that another node passed on, whose lease has yet another home.
pub fn moved(mut response: HttpResponse) -> HttpResponse {
    let name = header::HeaderName::from_static(MOVED);
    response.headers_mut().insert(name, header::HeaderValue::from_static("1"));
    response
}

/// Whether a place in the queue is asked for.
pub fn asks_for_place(request: &HttpRequest) -> bool {
    was_forwarded(request) && request.headers().contains_key(PLACE)
}
