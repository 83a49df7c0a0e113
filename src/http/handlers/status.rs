//! What needs a person, what happened lately, and what changed most.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use crate::{
    api::{
        KeyCounts, NodeStatus, Series, SeriesQuery, Status, StoreStatus, Top, TopQuery,
        limits::{DEFAULT_ROWS, MAX_ROWS},
    },
    clock::rfc3339,
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        request::{NoQuery, query},
        status::{By, Facts, LISTED, Reads, attention, figures, millis, point, rank},
    },
    lease::ChangeKind,
    manager::{CountedKeys, FailingCheck},
    store::{Counted, Health},
    telemetry::recent::{Cause, Step},
};

/// The time that `last_minute` covers.
const MINUTE: Duration = Duration::from_secs(60);

/// See what needs a person.
#[utoipa::path(get, operation_id = "status", path = "/v1/status", tag = "service", responses(
    (status = 200, description = "What needs a person, and the figures of the store and of this node", body = Status),
    (status = 400, description = "The query has a parameter, and none is accepted", body = Problem),
))]
pub async fn status(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let NoQuery {} = match query(&request) {
        Ok(none) => none,
        Err(problem) => return problem.respond(&request),
    };
    json(&request, StatusCode::OK, &look(&app, &Caller::of(&request)).await)
}

async fn look(app: &App, caller: &Caller) -> Status {
    let manager = &app.manager;
    let counted = manager.counted().await;
    let facts = facts(app, caller, counted.as_deref()).await;
    let (attention, more) = attention(&facts);
    let lately = manager.lately(MINUTE);
    let (last_minute, measured) = figures(&lately);
    let reasons = manager.unready();
    let severity = attention.first().map_or("none", |first| &*first.severity).to_owned();
    let health = match facts.health {
        Health::Ready => "ready",
        Health::Degraded(_) => "degraded",
        Health::Frozen(_) => "frozen",
    };
    Status {
        at: rfc3339(facts.wall_ms),
        severity,
        attention,
        more,
        store: StoreStatus {
            kind: app.store_kind.to_owned(),
            health: health.to_owned(),
            keys: counted.map(|counted| {
                let age = manager.now().since(counted.at);
                key_counts(&counted, age)
            }),
            nodes: facts.node_counts(),
        },
        this_node: NodeStatus {
            url: app.source.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ready: reasons.is_empty(),
            reasons,
            leases: manager.homed().into(),
            waiting: manager.waiting_places() as u64,
            writes_waiting: manager.writes_waiting() as u64,
            last_minute: measured,
        },
        last_minute,
    }
}

/// What may need a person, as far as the caller may know of it.
async fn facts(app: &App, caller: &Caller, counted: Option<&CountedKeys>) -> Facts {
    let manager = &app.manager;
    let reads = |key: &str| caller.reads(key);
    let reads_all = caller.reads_all_of("");
    let sees = |check: &FailingCheck| reads_all || caller.is_own(&check.owner);
    let mut pools = manager.uneven_pools();
    pools.retain(|pool| caller.reads_pool(app, &pool.pool));
    let mut churning = manager.churning_pools();
    churning.retain(|pool| caller.reads_pool(app, &pool.pool));
    let mut frozen = manager.frozen_pools();
    frozen.retain(|(pool, ..)| caller.reads_pool(app, pool));
    let mut unplaced = manager.unplaced_pools();
    unplaced.retain(|pool| caller.reads_pool(app, &pool.pool));
    let mut guarded = manager.guarded_pools();
    guarded.retain(|pool| caller.reads_pool(app, &pool.pool));
    let expired = Cause::of_kind(ChangeKind::Expired).index();
    Facts {
        now: manager.now(),
        wall_ms: manager.wall_ms(),
        health: manager.store_health(),
        may_promise: manager.may_promise(),
        is_stopping: manager.is_draining(),
        fences: manager.failed_fences(counted, reads, LISTED).await,
        stuck: manager.stuck(reads, LISTED),
        checks: manager.failing_checks(sees, LISTED),
        pools,
        churning,
        guarded,
        frozen,
        unplaced,
        nodes: manager.nodes(),
        shared_addresses: manager.shared_addresses(),
        other_rules: manager.nodes_with_other_rules(),
        other_access: manager.nodes_with_other_access(),
        files: manager.files().not_in_force(),
        list_trouble: manager.list_trouble(),
        restart: manager.files().waiting_for_restart(),
        certificates: app.certificates.judge(manager.wall_ms() / 1000),
        lateness: manager.lately(MINUTE).lateness,
        expired: manager.points(Step::Minute).iter().map(|point| point.counts[expired]).collect(),
        open_door: app.open_door,
        audit: app.door.lost_audit_lines(),
        audit_gaps: app.door.audit_gaps(),
        interruptions: manager.interruptions(),
    }
}

fn key_counts(counted: &CountedKeys, age: Duration) -> KeyCounts {
    let Counted { states, failed, more_failed } = &counted.census;
    KeyCounts {
        held: states.held,
        free: states.free,
        offered: states.offered,
        cooling: states.cooling,
        fencing: states.fencing,
        fences_failed: (failed.len() + more_failed) as u64,
        age_ms: millis(age),
        took_ms: millis(counted.took),
    }
}

/// See what happened lately, slice by slice.
#[utoipa::path(get, operation_id = "status_series", path = "/v1/status/series", tag = "service", params(SeriesQuery), responses(
    (status = 200, description = "The last hour, or the last five minutes", body = Series),
    (status = 400, description = "A parameter is not valid", body = Problem),
))]
pub async fn series(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    match try_series(&request, &app) {
        Ok(series) => json(&request, StatusCode::OK, &series),
        Err(problem) => problem.respond(&request),
    }
}

fn try_series(request: &HttpRequest, app: &App) -> Result<Series, Problem> {
    let SeriesQuery { step } = query(request)?;
    let step = match step.as_deref() {
        None | Some("1m") => Step::Minute,
        Some("5s") => Step::Fine,
        Some(other) => {
            return Err(Problem::field("step", format!("is {other:?}; it must be 1m or 5s")));
        }
    };
    let (now, wall_ms) = (app.manager.now(), app.manager.wall_ms());
    let began_ms = |start| wall_ms.saturating_sub(millis(now.since(start)));
    let points = app.manager.points(step);
    let points = points.iter().map(|one| point(one, began_ms(one.start))).collect();
    Ok(Series { step_ms: millis(step.span()), points })
}

/// See which keys, owners or pools changed most.
#[utoipa::path(get, operation_id = "top", path = "/v1/top", tag = "service", params(TopQuery), responses(
    (status = 200, description = "Those that changed most, of those that the caller may read", body = Top),
    (status = 400, description = "A parameter is not valid", body = Problem),
))]
pub async fn top(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    match try_top(&request, &app) {
        Ok(top) => json(&request, StatusCode::OK, &top),
        Err(problem) => problem.respond(&request),
    }
}

fn try_top(request: &HttpRequest, app: &App) -> Result<Top, Problem> {
    let caller = Caller::of(request);
    let TopQuery { window, by, cause, prefix, limit } = query(request)?;
    let span = match window.as_deref() {
        Some("1m") => Duration::from_secs(60),
        None | Some("10m") => Duration::from_secs(600),
        Some("60m") => Duration::from_secs(3600),
        Some(other) => {
            let detail = format!("is {other:?}; it must be 1m, 10m or 60m");
            return Err(Problem::field("window", detail));
        }
    };
    let by = by.as_deref().unwrap_or("keys");
    let by = By::ALL.into_iter().find(|one| one.as_str() == by).ok_or_else(|| {
        Problem::field("by", format!("is {by:?}; it must be keys, owners or pools"))
    })?;
    if by != By::Keys && prefix.is_some() {
        return Err(Problem::field("prefix", "is only for by=keys"));
    }
    let of_cause = cause.as_deref().map(|name| {
        Cause::named(name).filter(|cause| *cause != Cause::ADOPTED).ok_or_else(|| {
            Problem::field("cause", format!("is {name:?}; it must be a short type of events"))
        })
    });
    let of_cause = of_cause.transpose()?;
    let limit = limit.unwrap_or(DEFAULT_ROWS);
    if limit == 0 || limit > MAX_ROWS {
        let detail = format!("is {limit}; it must be from 1 to {MAX_ROWS}");
        return Err(Problem::field("limit", detail));
    }
    let prefix = prefix.unwrap_or_default();
    let key = |key: &str| key.starts_with(&*prefix) && caller.reads(key);
    let all_of = |prefix: &str| caller.reads_all_of(prefix);
    let window = app.manager.changed_most(span);
    let mut ranking = rank(&window, by, of_cause, &Reads { key: &key, all_of: &all_of }, limit);
    if by == By::Keys {
        for row in &mut ranking.rows {
            row.pool = Some(app.manager.pool_of(&row.name).to_string());
        }
    }
    Ok(Top {
        by: by.as_str().to_owned(),
        cause,
        window_ms: millis(span),
        covers_ms: millis(window.covers),
        rows: ranking.rows,
        others_at_most: ranking.others_at_most,
    })
}
