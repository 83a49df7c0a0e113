//! Acquiring any of several leases.

use std::{
    collections::{BTreeMap, HashSet},
    pin::pin,
};

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use futures_util::future::join_all;

use super::call::Call;
use crate::{
    access::Verb,
    api::{self, AcquireAnyBody, AnyGrant, AnyOrder, Grants, GrantsOfOthers},
    http::{
        about::about_any,
        answer::{Problem, json},
        app::App,
        caller::Caller,
        door::Waiting as Waits,
        forward::{asks_for_part, forward_part, unless_denied},
        request::{Body, kept_by, mark},
    },
    lease::{CandidateOrder, Key, MAX_KEY_BYTES, Refusal},
    manager::{
        AcquireAny, AcquireError, CallError, Candidates, Count, Home, MAX_CANDIDATES, Taken,
    },
};

/// Acquire up to `count` of several leases.
///
/// With a `request_id`, one node serves all calls with that id. The id chooses it among the live nodes, and the other
/// nodes forward the call to it. A repeated call therefore gets all its grants, whatever their home nodes are by then.
/// If the serving node or the home node of a grant cannot be reached, the answer is `home-unreachable` until that node
/// is back or was found dead. Not guaranteed: that two overlapping calls at two nodes are granted only once while these
/// nodes disagree about which nodes are alive. They may disagree for up to a quarter of `node.ttl` after a node came or
/// went.
#[utoipa::path(post, path = "/v1/acquire-any", tag = "leases", request_body = AcquireAnyBody, responses(
    (status = 200, description = "At least 1 grant, and at most `count`", body = Grants),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`none-available`, `request-id-spent`, `request-in-flight` or `session-lost`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 422, description = "`request-id-reused`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `store-frozen`, `home-unreachable`, `node-lapsed`, `draining`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full` or `too-many-keys`", body = Problem),
))]
pub async fn acquire_any(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<AcquireAnyBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let caller = Caller::of(&request);
    let Body(body, bytes) = &body;
    about_any(&body.owner);
    caller.is_about(body.keys.as_ref().map_or(1, Vec::len).min(MAX_CANDIDATES));
    let answer = async {
        may_hold(&caller, &app, body)?;
        let wanted = read_any(&caller, body)?;
        Call { request: &request, app: &app, bytes, received, wanted }.answer().await
    };
    caller.answer(&request, body.wait_ms, pin!(answer)).await
}

impl Call<'_, AcquireAny> {
    async fn answer(self) -> Result<HttpResponse, Problem> {
        if asks_for_part(self.request) {
            return self.answer_part().await;
        }
        let _place = match Waits::for_up_to(self.wait(), self.request) {
            Ok(place) => place,
            Err(full) => return self.answer_at_once(full).await,
        };
        if let Some(server) = self.server() {
            return self.answer_of(&server).await;
        }
        match self.acquire().await {
            Ok(taken) => self.tell(taken).await,
            Err(error) => {
                let answer = self.answer_of_session(&error).await;
                answer.ok_or_else(|| self.problem(&error))
            }
        }
    }

    /// Acquires at this node. The caller pays for the records that the search for candidates looked at.
    async fn acquire(&self) -> Result<Taken, AcquireError> {
        let caller = Caller::of(self.request);
        let looks = caller.looks();
        self.app.manager.acquire_any_counted(&self.wanted, self.received, &looks).await
    }

    /// Answers another node's question for what this node granted to an earlier call.
    async fn answer_part(&self) -> Result<HttpResponse, Problem> {
        let looks = Caller::of(self.request).looks();
        let here = self.app.manager.granted_here(&self.wanted, self.received, &looks).await;
        let here = here.map_err(|error| self.problem(&error))?;
        Ok(json(self.request, StatusCode::OK, &self.grants(&here)))
    }

    /// Answers while no more calls may wait: the call is granted here if that takes no waiting.
    async fn answer_at_once(self, full: Problem) -> Result<HttpResponse, Problem> {
        if self.server().is_some() {
            return Err(full);
        }
        let call = Self { wanted: AcquireAny { wait_ms: 0, ..self.wanted }, ..self };
        match call.acquire().await {
            Ok(taken) if taken.elsewhere.is_empty() => call.tell(taken).await,
            Ok(_) => Err(full),
            Err(error) => Err(call.problem(&error).unless_waiting(full)),
        }
    }

    /// Why nothing was acquired. A caller that may not read all candidates is not told what state they are in.
    fn problem(&self, error: &AcquireError) -> Problem {
        let problem = Problem::acquire(error, self.app, None);
        if self.reads_candidates() { problem } else { problem.uncounted() }
    }

    fn reads_candidates(&self) -> bool {
        let caller = Caller::of(self.request);
        match &self.wanted.candidates {
            Candidates::Keys(keys) => keys.iter().all(|key| caller.reads(key.as_str())),
            Candidates::Prefix(prefix) => caller.reads_all_of(prefix),
            Candidates::Pool(pool) => caller.reads_pool(self.app, pool),
        }
    }

    /// Tells the caller of its grants.
    async fn tell(&self, taken: Taken) -> Result<HttpResponse, Problem> {
        let mut answer = self.grants(&taken.grants);
        if let Some((id, _)) = self.wanted.mark
            && !taken.elsewhere.is_empty()
        {
            self.gather(id, &taken.elsewhere, &mut answer).await?;
        }
        Ok(json(self.request, StatusCode::OK, &answer))
    }

    /// Adds the grants of a repeated call that other nodes answer for. If some of them cannot be had, the caller must
    /// try again.
    async fn gather(
        &self,
        id: u128,
        elsewhere: &[(Key, Home)],
        answer: &mut Grants,
    ) -> Result<(), Problem> {
        let homes: BTreeMap<_, _> = elsewhere.iter().map(|(_, home)| (home.node, home)).collect();
        let parts = homes.into_values().map(|home| self.part(home));
        for part in join_all(parts).await {
            answer.grants.extend(part?.into_iter().map(AnyGrant::Others));
        }
        let found: HashSet<String> =
            answer.grants.iter().filter_map(AnyGrant::key).map(str::to_owned).collect();
        for (key, home) in elsewhere.iter().filter(|(key, _)| !found.contains(key.as_str())) {
            // It has ended meanwhile, or it has another home by now.
            let stands = self.app.manager.stands(key, id).await;
            if stands.map_err(|error| Problem::call(&error))? {
                return Err(Problem::call(&CallError::Elsewhere(home.clone())));
            }
        }
        if answer.grants.is_empty() {
            return Err(self.problem(&AcquireError::Refused(Refusal::RequestSpent(None), None)));
        }
        Ok(())
    }

    /// The grants that another node answers for.
    async fn part(&self, home: &Home) -> Result<Vec<serde_json::Value>, Problem> {
        let unreachable = || Problem::call(&CallError::Elsewhere(home.clone()));
        let part = forward_part(self.request, self.app, home, self.bytes.clone()).await;
        let part = unless_denied(part.ok_or_else(unreachable)?, home).await?;
        let part = part.error_for_status().map_err(|_| unreachable())?;
        let part = part.json::<GrantsOfOthers>().await.map_err(|_| unreachable())?;
        Ok(part.grants)
    }
}

/// Reads the request and checks all that needs no state.
pub fn read_any(caller: &Caller, body: &AcquireAnyBody) -> Result<AcquireAny, Problem> {
    let count = count_of(body.count);
    let (ttl_ms, session) = kept_by(caller, body.ttl_ms, body.session.as_deref())?;
    let mark = match &body.request_id {
        None => None,
        Some(id) => {
            let listed = body.keys.as_deref().unwrap_or_default().join("\0");
            let kind = [u8::from(body.keys.is_some()), body.order as u8];
            let count = match count {
                Count::UpTo(count) => count.to_le_bytes().to_vec(),
                Count::Fair => b"fair".to_vec(),
            };
            let ttl = ttl_ms.to_le_bytes();
            let prefix = body.prefix.as_deref().unwrap_or_default();
            let mut parts: Vec<&[u8]> = vec![
                body.owner.as_bytes(),
                &ttl,
                &count,
                &kind,
                listed.as_bytes(),
                prefix.as_bytes(),
            ];
            // A pool and a session are part of the mark only where they are given.
            parts.extend(body.pool.as_deref().map(str::as_bytes));
            parts.extend(body.session.as_deref().map(str::as_bytes));
            mark(caller, Some(id), &parts)?
        }
    };
    let order = match body.order {
        AnyOrder::Random => CandidateOrder::Random,
        AnyOrder::Listed => CandidateOrder::Listed,
        AnyOrder::Sticky => CandidateOrder::Sticky,
    };
    let owner = caller.owner("owner", &body.owner)?;
    Ok(AcquireAny {
        candidates: candidates(body)?,
        owner,
        ttl_ms,
        session,
        count,
        order,
        wait_ms: body.wait_ms,
        mark,
    })
}

/// Requires the right to hold every key that the call may be granted.
fn may_hold(caller: &Caller, app: &App, body: &AcquireAnyBody) -> Result<(), Problem> {
    for key in body.keys.as_deref().unwrap_or_default() {
        caller.may(Verb::Hold, key)?;
    }
    if let Some(prefix) = &body.prefix {
        caller.may_all_of(Verb::Hold, prefix)?;
    }
    if let Some(pool) = &body.pool {
        caller.may_work_for(app, pool)?;
    }
    Ok(())
}

fn count_of(count: api::Count) -> Count {
    match count {
        // No caller has enough keys for this to matter.
        api::Count::UpTo(count) => Count::UpTo(usize::try_from(count).unwrap_or(usize::MAX)),
        api::Count::Fair => Count::Fair,
    }
}

fn candidates(body: &AcquireAnyBody) -> Result<Candidates, Problem> {
    match (body.keys.as_deref(), body.prefix.as_deref(), body.pool.as_deref()) {
        (Some(keys), None, None) => {
            if keys.is_empty() || keys.len() > MAX_CANDIDATES {
                let detail =
                    format!("names {} keys; 1 to {MAX_CANDIDATES} are allowed", keys.len());
                return Err(Problem::field("keys", detail));
            }
            let parse = |(at, key): (usize, &String)| {
                Key::new(key).map_err(|error| Problem::field(&format!("keys[{at}]"), error))
            };
            Ok(Candidates::Keys(keys.iter().enumerate().map(parse).collect::<Result<_, _>>()?))
        }
        (None, Some(prefix), None) if prefix.len() > MAX_KEY_BYTES => {
            let detail =
                format!("is {} bytes long; at most {MAX_KEY_BYTES} are allowed", prefix.len());
            Err(Problem::field("prefix", detail))
        }
        (None, Some(prefix), None) => Ok(Candidates::Prefix(prefix.to_owned())),
        (None, None, Some(pool)) => Ok(Candidates::Pool(pool.to_owned())),
        (Some(_), Some(_), _) => Err(Problem::field("prefix", "and keys exclude each other")),
        (_, _, Some(_)) => Err(Problem::field("pool", "excludes keys and prefix")),
        (None, None, None) => Err(Problem::field("keys", "or prefix or pool must be given")),
    }
}
