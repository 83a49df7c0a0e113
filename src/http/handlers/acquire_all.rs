//! Acquiring every lease of a list, or none; and the permits of a key.

use std::pin::pin;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::call::Call;
use crate::{
    access::Verb,
    api::{AcquireAllBody, Grants, Mode, WantedKey},
    http::{
        about::about_any,
        answer::{Problem, json},
        app::App,
        caller::Caller,
        door::Waiting as Waits,
        forward::{Queued, Waiting},
        request::{Body, kept_by, mark},
    },
    lease::{Grant as Granted, Key, Named, Refusal},
    manager::{
        AcquireAll, AcquireError, AcquireOne, CallError, Home, MAX_TAKEN, NotAll, Take, Wanted,
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
    caller.is_about(leases(&app, &body.keys));
    let answer = async {
        let wanted = read_all(&caller, body)?;
        let call = Call { request: &request, app: &app, bytes, received, wanted };
        call.answer(|grants| json(&request, StatusCode::OK, &call.grants(grants))).await
    };
    caller.answer(&request, body.wait_ms, pin!(answer)).await
}

impl Call<'_, AcquireAll> {
    /// Takes every key, here or at the node that must. `granted` is the answer with the grants of this node.
    pub async fn answer(
        &self,
        granted: impl FnOnce(&[(Key, Granted)]) -> HttpResponse,
    ) -> Result<HttpResponse, Problem> {
        let _place = match Waits::for_up_to(self.wait(), self.request) {
            Ok(place) => place,
            Err(full) => return self.answer_at_once(full, granted).await,
        };
        self.answer_in_place(granted).await
    }

    /// [`Self::answer`] for a call that has a place among the waiting calls of this node.
    pub async fn answer_in_place(
        &self,
        granted: impl FnOnce(&[(Key, Granted)]) -> HttpResponse,
    ) -> Result<HttpResponse, Problem> {
        if let Some(server) = self.server() {
            return self.answer_of(&server).await;
        }
        let turn = async |key: &Key, home: &Home| self.has_turn(key, home).await;
        let manager = &self.app.manager;
        match Box::pin(manager.acquire_all_in_turn(&self.wanted, self.received, turn)).await {
            Ok(grants) => Ok(granted(&grants)),
            Err(not_all) => {
                let answer = self.answer_of_session(&not_all.error).await;
                answer.ok_or_else(|| self.problem(&not_all))
            }
        }
    }

    /// Answers while no more calls may wait: every key is granted here if that takes no waiting.
    async fn answer_at_once(
        &self,
        full: Problem,
        granted: impl FnOnce(&[(Key, Granted)]) -> HttpResponse,
    ) -> Result<HttpResponse, Problem> {
        if self.server().is_some() {
            return Err(full);
        }
        let all = AcquireAll { wait_ms: 0, ..self.wanted.clone() };
        match Box::pin(self.app.manager.acquire_all(&all, self.received)).await {
            Ok(grants) => Ok(granted(&grants)),
            Err(not_all) => Err(self.problem(&not_all).unless_waiting(full)),
        }
    }

    /// Waits in the queue of a key at another node, until that node offers the key to the owner.
    async fn has_turn(&self, key: &Key, home: &Home) -> bool {
        let AcquireAll { owner, ttl_ms, wait_ms, .. } = &self.wanted;
        let one = AcquireOne::new(key.clone(), owner.clone(), *ttl_ms);
        let one = AcquireOne { wait_ms: *wait_ms, ..one };
        let mut waiting = Waiting::since(self.received, self.wait());
        matches!(waiting.take_place(self.request, self.app, home, &one).await, Queued::Turn)
    }

    /// Why nothing was acquired. A caller that may not read the key in the way is told no more than that.
    fn problem(&self, not_all: &NotAll) -> Problem {
        let problem = Problem::acquire(&not_all.error, self.app, not_all.key.as_ref());
        let Some(key) = &not_all.key else { return problem };
        let at = self.wanted.keys.iter().position(|wanted| wanted.key == *key);
        if let (AcquireError::Call(CallError::Invalid(invalid)), Some(at)) = (&not_all.error, at) {
            return Problem::field(&format!("keys[{at}].{}", invalid.field), &invalid.detail);
        }
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
    if wanted.permits.is_some() && wanted.mode.is_some() {
        return Err(Problem::field(&field("mode"), "and permits exclude each other"));
    }
    Ok(Wanted { key, take: take_of(wanted) })
}

fn take_of(wanted: &WantedKey) -> Take {
    match (wanted.permits, wanted.mode) {
        (Some(count), _) => Take::Permits(count),
        (None, Some(Mode::Exclusive)) => Take::All,
        (None, Some(Mode::Shared) | None) => Take::Permits(1),
    }
}

/// How many leases a call for these keys is about. A call for more than [`MAX_TAKEN`] is refused.
fn leases(app: &App, keys: &[WantedKey]) -> usize {
    let of = |wanted: &WantedKey| match (app.manager.named(&wanted.key), take_of(wanted)) {
        (Named::Permits(all), Take::All) => all as usize,
        (Named::Permits(all), Take::Permits(count)) => count.min(all) as usize,
        (Named::Lease | Named::NoPermit(_), _) => 1,
    };
    keys.iter().take(MAX_TAKEN).map(of).sum::<usize>().min(MAX_TAKEN)
}
