//! Acquiring every lease of a list, or none; and the permits of a key.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use bytes::Bytes;

use crate::{
    access::Verb,
    api::{AcquireAllBody, AnyGrant, Grant, Grants, Mode, WantedKey},
    http::{
        about::about_any,
        answer::{Problem, json as answer_json},
        app::App,
        caller::{Caller, Kind},
        door::Waiting,
        following::keeps,
        forward::{Queued, Waiting as Queue, relay_waiting},
        peer::was_forwarded,
        request::{Body, kept_by, mark},
    },
    lease::{Grant as Granted, Key, Moment, Refusal},
    manager::{
        AcquireAll, AcquireError, AcquireOne, CallError, Home, MAX_TAKEN, NotAll, SessionError,
        Take, Wanted,
    },
};

/// Acquire every lease of a list, or none.
///
/// A key with permits counts as many leases as permits are taken. Each is a lease of its own, such as `gpus/a#2`, with
/// its own token and `lease_id`. If the call is refused, it has none of them.
#[utoipa::path(post, path = "/v1/acquire-all", tag = "leases", request_body = AcquireAllBody, responses(
    (status = 200, description = "Every key is granted", body = Grants),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`held`, `held-by-you`, `none-available`, `request-id-spent`, `request-in-flight` or `session-lost`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 422, description = "`request-id-reused`", body = Problem),
    (status = 423, description = "`cooling`, with the rest of the lock-delay in `retry_after_ms`, or `fencing`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `store-frozen`, `home-unreachable`, `node-lapsed`, `draining`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full` or `too-many-keys`", body = Problem),
))]
pub async fn acquire_all(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<AcquireAllBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let caller = Caller::of(&request);
    let Body(body, bytes) = &body;
    about_any(&body.owner);
    caller.is_about(body.keys.len().min(MAX_TAKEN));
    let answer = async {
        let call = Call { request: &request, app: &app, bytes, received };
        let taken = match read_all(&caller, body) {
            Ok(all) => call.take(all).await,
            Err(problem) => Taken::Refused(problem),
        };
        call.tell(taken, |grants| {
            let grants = grants.iter().map(|(key, grant)| Grant::of(&app, key, grant));
            answer_json(
                &request,
                StatusCode::OK,
                &Grants { grants: grants.map(AnyGrant::Own).collect() },
            )
        })
    };
    if body.wait_ms == 0 {
        return answer.await;
    }
    match caller.uses(Kind::Waits) {
        Ok(_in_use) => caller.unless_removed(&request, answer).await,
        Err(problem) => problem.respond(&request),
    }
}

/// What came of a call.
pub enum Taken {
    /// All that it asks for.
    Granted(Vec<(Key, Granted)>),
    /// Another node answered it.
    Answered(HttpResponse),
    /// Nothing.
    Refused(Problem),
}

/// A call while this node answers it.
pub struct Call<'a> {
    pub request: &'a HttpRequest,
    pub app: &'a App,
    pub bytes: &'a Bytes,
    pub received: Moment,
}

impl Call<'_> {
    /// Takes every key, here or at the node that must.
    pub async fn take(&self, all: AcquireAll) -> Taken {
        let wait = Duration::from_millis(all.wait_ms).min(self.app.manager.limits().wait_max);
        let place = if wait.is_zero() { None } else { Some(Waiting::of(self.request)) };
        let _place = match place.transpose() {
            Ok(place) => place,
            Err(full) => return self.take_at_once(AcquireAll { wait_ms: 0, ..all }, full).await,
        };
        if let Some(server) = self.server(&all) {
            return match self.relay(&server, wait).await {
                Some(answer) => Taken::Answered(answer),
                None => Taken::Refused(Problem::server_unreachable(&server)),
            };
        }
        let turn = async |key: &Key, home: &Home| self.has_turn(&all, wait, key, home).await;
        let taken = self.app.manager.acquire_all_in_turn(&all, self.received, turn).await;
        let not_all = match taken {
            Ok(grants) => return Taken::Granted(grants),
            Err(not_all) => not_all,
        };
        if let AcquireError::Session(SessionError::Call(CallError::Elsewhere(home))) =
            &not_all.error
            && !was_forwarded(self.request)
            && let Some(answer) = self.relay(home, wait).await
        {
            // R6: a session's home node grants the leases that the session keeps.
            return Taken::Answered(answer);
        }
        Taken::Refused(self.problem(&not_all))
    }

    /// Takes every key while no more calls may wait, if that takes no waiting.
    async fn take_at_once(&self, all: AcquireAll, full: Problem) -> Taken {
        if self.server(&all).is_some() {
            return Taken::Refused(full);
        }
        match self.app.manager.acquire_all(&all, self.received).await {
            Ok(grants) => Taken::Granted(grants),
            Err(not_all) => {
                let problem = self.problem(&not_all);
                let waits = matches!(problem.status, 409 | 423) && problem.retryable;
                Taken::Refused(if waits || problem.home().is_some() { full } else { problem })
            }
        }
    }

    /// Answers with the grants that this node made.
    pub fn tell(
        &self,
        taken: Taken,
        granted: impl FnOnce(&[(Key, Granted)]) -> HttpResponse,
    ) -> HttpResponse {
        match taken {
            Taken::Granted(grants) => {
                for (key, grant) in &grants {
                    keeps(self.request, key.as_str(), grant.view.token);
                }
                granted(&grants)
            }
            Taken::Answered(answer) => answer,
            Taken::Refused(problem) => problem.respond(self.request),
        }
    }

    /// Waits in the queue of a key at another node, until that node offers the key to the owner.
    async fn has_turn(&self, all: &AcquireAll, wait: Duration, key: &Key, home: &Home) -> bool {
        let one = AcquireOne::new(key.clone(), all.owner.clone(), all.ttl_ms);
        let one = AcquireOne { wait_ms: all.wait_ms, ..one };
        let mut waiting = Queue::since(self.received, wait);
        matches!(waiting.take_place(self.request, self.app, home, &one).await, Queued::Turn)
    }

    /// The node that serves the call's request id, if it is another one.
    fn server(&self, all: &AcquireAll) -> Option<Home> {
        let (id, _) = all.mark.filter(|_| all.session.is_none())?;
        if was_forwarded(self.request) || self.app.manager.is_draining() {
            return None;
        }
        self.app.manager.server_of(id)
    }

    async fn relay(&self, home: &Home, wait: Duration) -> Option<HttpResponse> {
        relay_waiting(self.request, self.app, home, self.bytes.clone(), wait).await
    }

    /// Why nothing was acquired. A caller that may not read the key in the way is told no more than that.
    fn problem(&self, not_all: &NotAll) -> Problem {
        let problem = Problem::acquire(&not_all.error, self.app, not_all.key.as_ref());
        let Some(key) = &not_all.key else { return problem };
        let caller = Caller::of(self.request);
        let problem = match (&not_all.error, caller.reads(key.as_str())) {
            (AcquireError::NoneAvailable(_), true) => {
                Problem { detail: not_all.to_string(), ..problem }
            }
            (AcquireError::NoneAvailable(_), false) => problem.uncounted(),
            (AcquireError::Refused(Refusal::HeldByYou, _), true) => {
                Problem { detail: format!("this owner already holds {key:?}"), ..problem }
            }
            _ => problem,
        };
        caller.told(key.as_str(), problem)
    }
}

/// Reads the request and checks all that needs no state.
pub fn read_all(caller: &Caller, body: &AcquireAllBody) -> Result<AcquireAll, Problem> {
    let (ttl_ms, session) = kept_by(caller, body.ttl_ms, body.session.as_deref())?;
    let keys: Vec<Wanted> = body
        .keys
        .iter()
        .enumerate()
        .map(|(at, wanted)| read_wanted(caller, at, wanted))
        .collect::<Result<_, _>>()?;
    let listed: Vec<String> =
        keys.iter().map(|wanted| format!("{:?} {}", wanted.take, wanted.key)).collect();
    let (ttl, listed) = (ttl_ms.to_le_bytes(), listed.join("\0"));
    let proof = body.session.as_deref().unwrap_or_default();
    let parts: [&[u8]; 5] =
        [b"all", body.owner.as_bytes(), &ttl, listed.as_bytes(), proof.as_bytes()];
    let mark = mark(caller, body.request_id.as_deref(), &parts)?;
    let owner = caller.owner("owner", &body.owner)?;
    Ok(AcquireAll { session, wait_ms: body.wait_ms, mark, ..AcquireAll::new(keys, owner, ttl_ms) })
}

fn read_wanted(caller: &Caller, at: usize, wanted: &WantedKey) -> Result<Wanted, Problem> {
    let field = |name: &str| format!("keys[{at}].{name}");
    let key = Key::new(&wanted.key).map_err(|error| Problem::field(&field("key"), error))?;
    caller.may(Verb::Hold, key.as_str())?;
    let take = match (wanted.permits, wanted.mode) {
        (Some(_), Some(_)) => {
            return Err(Problem::field(&field("mode"), "and permits exclude each other"));
        }
        (Some(count), None) => Take::Permits(count),
        (None, Some(Mode::Exclusive)) => Take::All,
        (None, Some(Mode::Shared) | None) => Take::Permits(1),
    };
    Ok(Wanted { key, take })
}
