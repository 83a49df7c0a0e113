//! Any of several leases.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::{
    body::{Body, json, owner},
    forward::act_at_home,
    leases::mark,
    problem::Problem,
    server::App,
    wire::{AcquireAnyBody, AnyOrder, Grant, Grants},
};
use crate::{
    lease::{Key, MAX_KEY_BYTES, Moment, Order},
    manager::{AcquireAny, Candidates, MAX_CANDIDATES},
};

/// Become the owner of up to `count` of several leases.
#[utoipa::path(post, path = "/v1/acquire-any", tag = "leases", request_body = AcquireAnyBody, responses(
    (status = 200, description = "1 to `count` grants", body = Grants),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`none-available`, `request-id-spent` or `request-in-flight`", body = Problem),
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
    act_at_home(&request, &app, &body.1, async |asked| {
        let grants = try_acquire_any(&app, &body.0, asked.received).await?;
        Ok(json(&request, StatusCode::OK, &grants))
    })
    .await
}

async fn try_acquire_any(
    app: &App,
    body: &AcquireAnyBody,
    received: Moment,
) -> Result<Grants, Problem> {
    let mark = match &body.request_id {
        None => None,
        Some(id) => {
            let listed = body.keys.as_deref().unwrap_or_default().join("\0");
            let kind = [u8::from(body.keys.is_some()), body.order as u8];
            let (ttl, count) = (body.ttl_ms.to_le_bytes(), body.count.to_le_bytes());
            let prefix = body.prefix.as_deref().unwrap_or_default();
            let mut parts: Vec<&[u8]> = vec![
                body.owner.as_bytes(),
                &ttl,
                &count,
                &kind,
                listed.as_bytes(),
                prefix.as_bytes(),
            ];
            // What marks say of calls without a pool is as it was.
            parts.extend(body.pool.as_deref().map(str::as_bytes));
            mark(Some(id), &parts)?
        }
    };
    let order = match body.order {
        AnyOrder::Random => Order::Random,
        AnyOrder::Listed => Order::Listed,
        AnyOrder::Sticky => Order::Sticky,
    };
    let owner = owner("owner", &body.owner)?;
    let any = AcquireAny {
        candidates: candidates(body)?,
        owner,
        ttl_ms: body.ttl_ms,
        count: body.count,
        order,
        wait_ms: body.wait_ms,
        mark,
    };
    let grants =
        app.manager.acquire_any(&any, received).await.map_err(|e| Problem::acquire_any(&e))?;
    Ok(Grants { grants: grants.iter().map(|(key, grant)| Grant::of(app, key, grant)).collect() })
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
        (None, None, None) => Err(Problem::field("keys", "or prefix or pool is needed")),
    }
}
