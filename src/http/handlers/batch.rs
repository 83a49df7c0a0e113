//! Many leases in one request. Each has its own verdict, and a failure of one never affects another.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode};
use futures_util::future::join_all;
use serde_json::{Map, Value};

use crate::{
    api::{BatchBody, BatchRefs, Item, LeaseRef, Verdict, Verdicts, limits::MAX_BATCH},
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        forward::forward,
        peer::was_forwarded,
        request::held,
    },
    lease::{LeaseId, Nonce},
    manager::{Asked, CallError, HolderError, Home},
};

/// Refuses a batch as a whole when it is too long.
pub fn check_size(body: &BatchBody) -> Result<(), Problem> {
    if body.leases.len() > MAX_BATCH {
        let detail = format!("names {} leases; at most {MAX_BATCH} are allowed", body.leases.len());
        return Err(Problem::field("leases", detail));
    }
    Ok(())
}

/// Turns a problem into a verdict.
pub fn refused(key: &str, problem: Problem) -> Verdict<'_> {
    Verdict {
        key,
        status: problem.status,
        code: Some(problem.code),
        reason: problem.reason,
        detail: Some(problem.detail),
        node: problem.node,
        ..Verdict::default()
    }
}

/// Answers a batch with a verdict for each lease, in order. Leases at home on other nodes are forwarded to them, in one
/// request per home node.
pub async fn answer<'b, T>(
    request: &HttpRequest,
    app: &App,
    body: &'b BatchBody,
    ask: impl AsyncFn(Vec<(&'b str, LeaseId)>, Asked) -> Vec<Result<T, HolderError>>,
    verdict: impl Fn(&'b str, Result<T, HolderError>) -> Verdict<'b>,
) -> HttpResponse {
    let (received, caller) = (app.manager.now(), Caller::of(request));
    let leases = &body.leases;
    if let Err(problem) = check_size(body) {
        return problem.respond(request);
    }
    caller.is_about(leases.len());
    let mut asked = Vec::with_capacity(leases.len());
    let mut results: Vec<Option<Item<'b>>> = Vec::with_capacity(leases.len());
    for lease in leases {
        match read(&caller, lease) {
            Ok(id) => {
                asked.push((lease.key.as_str(), id));
                results.push(None);
            }
            Err(problem) => results.push(Some(Item::Own(refused(&lease.key, problem)))),
        }
    }
    let answers = ask(asked, received.into()).await;
    let places = (0..leases.len()).filter(|at| results[*at].is_none()).collect::<Vec<_>>();
    let mut away: BTreeMap<Nonce, (Home, Vec<usize>)> = BTreeMap::new();
    for (at, answer) in places.into_iter().zip(answers) {
        match &answer {
            Err(HolderError::Call(CallError::Elsewhere(home))) if !was_forwarded(request) => {
                let places = away.entry(home.node).or_insert_with(|| (home.clone(), Vec::new()));
                places.1.push(at);
            }
            _ => results[at] = Some(Item::Own(verdict(&leases[at].key, answer))),
        }
    }
    let homes = away.into_values();
    let carried = homes.map(|(home, places)| carry(request, app, body, home, places));
    let mut home_unreachable = Vec::new();
    for (places, items) in join_all(carried).await {
        match items {
            Some(items) => {
                places.into_iter().zip(items).for_each(|(at, item)| results[at] = Some(item));
            }
            None => home_unreachable.extend(places),
        }
    }
    if !home_unreachable.is_empty() {
        let again = home_unreachable.iter().filter_map(|at| {
            Some((leases[*at].key.as_str(), caller.lease_id(&leases[*at].lease_id).ok()?))
        });
        let answers = ask(again.collect(), Asked { received, home_unreachable: true }).await;
        for (at, answer) in home_unreachable.into_iter().zip(answers) {
            results[at] = Some(Item::Own(verdict(&leases[at].key, answer)));
        }
    }
    json(request, StatusCode::OK, &Verdicts { results: results.into_iter().flatten().collect() })
}

/// Forwards a home node's part of a batch, and returns the node's verdict on each lease; `None` when the node cannot be
/// reached. A node that refuses the part as a whole refuses each of its leases.
async fn carry<'b>(
    request: &HttpRequest,
    app: &App,
    body: &'b BatchBody,
    home: Home,
    places: Vec<usize>,
) -> (Vec<usize>, Option<Vec<Item<'b>>>) {
    let part = BatchRefs { leases: places.iter().map(|at| &body.leases[*at]).collect() };
    let items = async {
        let part = serde_json::to_vec(&part).ok()?;
        let answer = forward(request, app, &home, part.into()).await?;
        let answer: Value = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
        let Value::Object(mut answer) = answer else { return None };
        let items = match answer.remove("results") {
            Some(Value::Array(items)) => items,
            Some(_) => return None,
            None => {
                let refusal = refusal(answer)?;
                places.iter().map(|at| refused_there(&body.leases[*at].key, &refusal)).collect()
            }
        };
        let node = home.url.as_deref().unwrap_or_default();
        let told = items.into_iter().map(|mut item| {
            if let Value::Object(verdict) = &mut item {
                verdict.insert("node".into(), node.into());
            }
            Item::Others(item)
        });
        let told: Vec<_> = told.collect();
        (told.len() == places.len()).then_some(told)
    };
    let items = items.await;
    (places, items)
}

/// What a verdict contains of another node's problem document. `None` if the answer is not one.
fn refusal(problem: Map<String, Value>) -> Option<Map<String, Value>> {
    let told = ["status", "code", "reason", "detail"];
    let refusal: Map<_, _> =
        problem.into_iter().filter(|(field, _)| told.contains(&field.as_str())).collect();
    (refusal.contains_key("status") && refusal.contains_key("code")).then_some(refusal)
}

fn refused_there(key: &str, refusal: &Map<String, Value>) -> Value {
    let mut verdict = refusal.clone();
    verdict.insert("key".into(), key.into());
    Value::Object(verdict)
}

/// Reads one lease of a batch. A fault becomes that lease's own verdict.
pub fn read(caller: &Caller, lease: &LeaseRef) -> Result<LeaseId, Problem> {
    held(caller, &lease.key, &lease.lease_id)
}
