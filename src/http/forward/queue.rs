//! Waiting in the one queue of a lease, at its home node.
//!
//! Guarantees: waiters are served in the order in which their calls reached their first node, as far as the nodes'
//! clocks run at the same rate. If a home node may have granted a call whose answer was lost, the caller is told to try
//! again (`home-unreachable`), never that the call was refused.
//!
//! Does not guarantee: that order while the home node cannot be reached, or in the milliseconds while the queue moves
//! to another home node; one queue for the calls that wait for several keys.
//!
//! Assumes: as in [`super::home`].

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::Bytes;
use serde_json::json;

use super::relay::{acquire_for, carried_by, respond, send};
use crate::{
    http::{
        answer::Problem,
        app::App,
        peer::{ANSWER, MOVED, PLACE, SHED, WAITED, was_forwarded},
    },
    lease::Moment,
    manager::{AcquireOne, Asked, Home},
};

/// The pause before a further attempt while a lease moves: nodes hear of the move at different times.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a call that has no time to wait is tried while its lease moves between home nodes.
const TRIES: u32 = 3;

/// The outcome of a call that waited at another node.
pub enum Queued {
    /// Its turn has come: the key is reserved for its owner.
    Turn,
    /// The other node granted, refused or failed.
    Answered(HttpResponse),
    /// The lease has moved to yet another home node.
    Moved,
    /// The other node cannot be reached, or accepts no work.
    HomeUnreachable,
}

/// A call that may wait, and how long it has waited.
pub struct Waiting {
    received: Moment,
    until: Moment,
    tries: u32,
    /// How often in a row the lease had moved.
    moves: u32,
    /// Whether only the other node can grant the lease.
    there: bool,
    /// Whether another node may have granted the lease and its answer was lost.
    outcome_unknown: bool,
}

impl Waiting {
    /// A call that counts from the moment at which the first node received it.
    pub fn of(request: &HttpRequest, app: &App, wait: Duration) -> Self {
        let waited = request.headers().get(WAITED).filter(|_| was_forwarded(request));
        let waited = waited.and_then(|ms| ms.to_str().ok()?.parse().ok());
        let waited = Duration::from_millis(waited.unwrap_or(0)).min(wait);
        Self::since(app.manager.now() - waited, wait)
    }

    /// A call that counts from this moment.
    pub fn since(received: Moment, wait: Duration) -> Self {
        Self {
            received,
            until: received + wait,
            tries: 0,
            moves: 0,
            there: false,
            outcome_unknown: false,
        }
    }

    /// The next attempt, after a pause if the lease moves; `None` when the call's time is over.
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
            home_unreachable: matches!(queued, Queued::HomeUnreachable),
        })
    }

    pub fn asked(&self) -> Asked {
        self.received.into()
    }

    /// Takes a place in another node's queue, for a caller that this node will grant the key.
    pub async fn take_place(
        &mut self,
        request: &HttpRequest,
        app: &App,
        home: &Home,
        one: &AcquireOne,
    ) -> Queued {
        let carried = acquire_for(request, app, home, place_of(one));
        let queued =
            self.send(request, app, home, carried.map(|carried| carried.header(PLACE, "1"))).await;
        // The other node grants nothing to such a call.
        self.outcome_unknown = false;
        queued
    }

    async fn send(
        &mut self,
        request: &HttpRequest,
        app: &App,
        home: &Home,
        carried: Option<reqwest::RequestBuilder>,
    ) -> Queued {
        let Some(carried) = carried else { return Queued::HomeUnreachable };
        let now = app.manager.now();
        let waited = now.since(self.received).as_millis().to_string();
        let left = self.until.since(now);
        // A session's home node may in turn ask for a place at the lease's home node.
        let limit = if left.is_zero() { ANSWER } else { left + 2 * ANSWER };
        let carried = carried.header(WAITED, waited).timeout(limit);
        let answer = tokio::select! {
            answer = send(app, home, carried) => answer.map_err(|error| !error.is_connect()),
            // The other node may have stopped with the connection open.
            () = app.manager.gone(home.node) => Err(true),
        };
        let queued = match answer {
            Err(sent) => {
                self.outcome_unknown |= sent;
                return Queued::HomeUnreachable;
            }
            Ok(answer) if answer.headers().contains_key(MOVED) => Queued::Moved,
            Ok(answer) if answer.status().as_u16() == 204 => Queued::Turn,
            // A home node that lives and is overloaded did nothing: the caller is told so.
            Ok(answer)
                if answer.status().is_server_error()
                    && !self.there
                    && (self.outcome_unknown || !answer.headers().contains_key(SHED)) =>
            {
                Queued::HomeUnreachable
            }
            Ok(answer) => {
                let answered = respond(request, home, answer).await;
                answered.map_or(Queued::HomeUnreachable, Queued::Answered)
            }
        };
        self.outcome_unknown |= matches!(queued, Queued::HomeUnreachable);
        queued
    }
}

/// What a node asks for that wants a place, whatever its caller asks for: the body of an acquire. The other node grants
/// nothing, so it must not know what would keep the lease; but an acquire must say something of that.
fn place_of(one: &AcquireOne) -> Bytes {
    let AcquireOne { key, owner, wait_ms, reclaim, ttl_ms, .. } = one;
    let (key, owner) = (key.as_str(), owner.as_str());
    let place = json!({ "key": key, "owner": owner, "ttl_ms": (*ttl_ms).max(1), "wait_ms": wait_ms,
        "reclaim": reclaim });
    Bytes::from(place.to_string())
}

/// [`act_at_home`](super::act_at_home) for a call that may wait for `wait` in the one queue of its lease.
/// While the home node cannot be reached, the call waits here. Under a session, only the session's home node can grant
/// it.
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
        let Some(home) = problem.home().filter(|_| !asked.home_unreachable) else {
            return unheard.filter(|_| waiting.outcome_unknown).unwrap_or(problem).respond(request);
        };
        if was_forwarded(request) {
            return moved(problem.respond(request));
        }
        let carried = carried_by(request, app, home, body.clone());
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

/// Marks the answer to a forwarded call: its lease has moved to yet another home node.
pub fn moved(mut response: HttpResponse) -> HttpResponse {
    let name = header::HeaderName::from_static(MOVED);
    response.headers_mut().insert(name, header::HeaderValue::from_static("1"));
    response
}

/// Whether the call asks only for a place in the queue.
pub fn asks_for_place(request: &HttpRequest) -> bool {
    was_forwarded(request) && request.headers().contains_key(PLACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::AcquireBody,
        lease::{Key, Owner},
    };

    /// Coordinators of the release before refuse a field that they do not know.
    #[test]
    fn a_place_is_asked_for_as_the_release_before_knows_it() {
        let (key, owner) = (Key::new("k").expect("a key"), Owner::new("w").expect("an owner"));
        let session = Some("0".repeat(64).parse().expect("an id"));
        let one = AcquireOne {
            wait_ms: 7,
            reclaim: true,
            value: Some("v".into()),
            mark: Some((1, 2)),
            session,
            min_hold_ms: 9,
            ..AcquireOne::new(key, owner, 0)
        };
        let place = place_of(&one);
        let asked: serde_json::Value = serde_json::from_slice(&place).expect("JSON");
        let expected =
            json!({ "key": "k", "owner": "w", "ttl_ms": 1, "wait_ms": 7, "reclaim": true });
        assert_eq!(asked, expected);
        serde_json::from_slice::<AcquireBody>(&place).expect("an acquire");
    }
}
