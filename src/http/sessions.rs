//! Sessions: one heartbeat for many leases.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    body::{Body, OptionalBody, json, owner, query},
    forward::act_at_home,
    problem::Problem,
    server::App,
};
use crate::{
    lease::{
        Behavior, Check, CheckKind, MAX_CHECKS, MAX_LOCK_DELAY_MS, NotASessionId, SessionId,
        SessionSpec, digest_of,
    },
    manager::{Asked, SessionView},
};

/// Most sessions of one page.
const MAX_LIMIT: usize = 1000;
/// The shortest and longest span between two rounds of a check, and for one round, in milliseconds.
const CHECK_SPANS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

/// What becomes of the keys' values when a session ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BehaviorName {
    /// They stay, for the next owner to read.
    #[default]
    Release,
    /// They go. Tokens never do.
    Delete,
}

/// A check that the session's home carries out.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CheckBody {
    /// A GET of the URL is to answer with a 2xx.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// From the end of one round to the next; 100 to 3 600 000.
        interval_ms: u64,
        /// A round that takes longer has failed; 100 to 3 600 000.
        timeout_ms: u64,
        /// So many failed rounds in a row end the session; 1 to 1000.
        fail_after: u32,
    },
    /// The address is to accept a connection.
    Tcp {
        /// `host:port`.
        address: String,
        /// From the end of one round to the next.
        interval_ms: u64,
        /// A round that takes longer has failed.
        timeout_ms: u64,
        /// So many failed rounds in a row end the session.
        fail_after: u32,
    },
    /// The program is to exit with 0. Refused unless the settings allow it.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        /// From the end of one round to the next.
        interval_ms: u64,
        /// A round that takes longer has failed: the program and all that it started are killed.
        timeout_ms: u64,
        /// So many failed rounds in a row end the session.
        fail_after: u32,
    },
    /// The `progress` of the heartbeats is to change within the interval.
    Progress {
        /// Within this.
        interval_ms: u64,
        /// So many intervals in a row without a change end the session.
        fail_after: u32,
    },
}

/// A session to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// 1 to 256 bytes.
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// What becomes of the keys' values at its end.
    #[serde(default)]
    pub behavior: BehaviorName,
    /// How long its keys stay shut after its end, 0 to 60 000; absent: as their policies say.
    pub lock_delay_ms: Option<u32>,
    /// The pool that it works for.
    pub pool: Option<String>,
    /// Its share of the pool's work beside other members, 1 to 1 000 000.
    pub weight: Option<u32>,
    /// What else must hold for it to live; at most 8.
    #[serde(default)]
    pub checks: Vec<CheckBody>,
}

/// A session as everybody may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionWire {
    /// Its name for everybody; its id is a secret.
    pub digest: String,
    /// Whose it is.
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// Until it ends if nothing happens; null where another node knows.
    pub expires_in_ms: Option<u64>,
    /// What becomes of the keys' values at its end.
    pub behavior: BehaviorName,
    /// How long its keys stay shut after its end; null: as their policies say.
    pub lock_delay_ms: Option<u32>,
    /// The pool that it works for.
    pub pool: Option<String>,
    /// Its share of the pool's work.
    pub weight: u32,
    /// What else must hold for it to live.
    pub checks: Vec<CheckBody>,
    /// The leases that it keeps; null where another node knows.
    pub leases: Option<HoldingsWire>,
    /// The URL of the node at which it is at home.
    pub node: Option<String>,
    /// RFC 3339, for people only.
    pub created_at: Option<String>,
}

/// The leases of a session, in short.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct HoldingsWire {
    /// How many.
    pub count: usize,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of key, a zero byte and the token in decimal;
    /// 16 hexadecimal digits.
    #[schema(value_type = String)]
    #[serde(serialize_with = "hex")]
    pub digest: u64,
}

fn hex<S: serde::Serializer>(digest: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{digest:016x}"))
}

/// A session that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenedWire {
    /// The secret that authorises its heartbeat and its end.
    pub id: String,
    /// It lives from the answer until so long after the moment before the request was sent.
    pub valid_for_ms: u64,
    #[serde(flatten)]
    session: SessionWire,
}

/// A heartbeat of a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeatBody {
    /// How far the work has come, in any words; a `progress` check wants it to change. At most 256 bytes.
    pub progress: Option<String>,
}

/// A heartbeat that was absorbed.
#[derive(Debug, Serialize, ToSchema)]
pub struct BeatWire {
    /// Every lease of the session, but for those that notices name, is held from the answer until so long
    /// after the moment before the heartbeat was sent.
    pub valid_for_ms: u64,
    /// What it keeps.
    pub leases: HoldingsWire,
    /// What its holder should know.
    pub notices: Vec<Notice>,
}

/// What a holder should know.
#[derive(Debug, Serialize, ToSchema)]
pub struct Notice {
    /// `revoked`: an administrator ordered this lease to end, and the heartbeat does not keep it.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Which lease.
    pub key: String,
}

/// Whether a session was ended by this call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClosedWire {
    /// False: it was over already.
    pub destroyed: bool,
}

/// Which sessions are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only those of this owner.
    pub owner: Option<String>,
    /// At most so many; 100 unless said otherwise, at most 1000.
    pub limit: Option<usize>,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionsWire {
    /// By digest.
    pub sessions: Vec<SessionWire>,
    /// Where the next page begins; null: this was the last.
    pub next: Option<String>,
}

/// The id of a session from a body or path.
pub fn session_id(field: &str, text: &str) -> Result<SessionId, Problem> {
    text.parse().map_err(|error: NotASessionId| Problem::field(field, error))
}

fn span(field: &str, at: usize, value: u64) -> Result<u64, Problem> {
    if CHECK_SPANS.contains(&value) {
        return Ok(value);
    }
    let (min, max) = (CHECK_SPANS.start(), CHECK_SPANS.end());
    let detail = format!("is {value}; it must be from {min} to {max}");
    Err(Problem::field(&format!("checks[{at}].{field}"), detail))
}

fn check(app: &App, at: usize, body: &CheckBody) -> Result<Check, Problem> {
    let wrong =
        |field: &str, detail: &str| Err(Problem::field(&format!("checks[{at}].{field}"), detail));
    let (kind, interval_ms, timeout_ms, fail_after) = match body {
        CheckBody::Http { url, interval_ms, timeout_ms, fail_after } => {
            let known = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
            if !known || url.len() > 2048 || reqwest::Url::parse(url).is_err() {
                return wrong("url", "must be an http:// or https:// URL of at most 2048 bytes");
            }
            (CheckKind::Http(url.as_str().into()), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckBody::Tcp { address, interval_ms, timeout_ms, fail_after } => {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none_or(|port| port == 0) || address.len() > 256 {
                return wrong("address", "must be host:port");
            }
            (CheckKind::Tcp(address.as_str().into()), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckBody::Exec { command, interval_ms, timeout_ms, fail_after } => {
            if !app.exec_checks {
                return wrong(
                    "type",
                    "is exec, which this coordinator does not allow (limits.exec_checks)",
                );
            }
            let long = command.iter().map(String::len).sum::<usize>() > 4096;
            if command.is_empty() || command[0].is_empty() || long {
                return wrong("command", "must be a program and its arguments, at most 4096 bytes");
            }
            let command = command.iter().map(|part| part.as_str().into()).collect();
            (CheckKind::Exec(command), *interval_ms, *timeout_ms, *fail_after)
        }
        CheckBody::Progress { interval_ms, fail_after } => {
            (CheckKind::Progress, *interval_ms, *interval_ms, *fail_after)
        }
    };
    if !(1..=1000).contains(&fail_after) {
        return wrong("fail_after", &format!("is {fail_after}; it must be from 1 to 1000"));
    }
    let interval_ms = span("interval_ms", at, interval_ms)?;
    let timeout_ms = span("timeout_ms", at, timeout_ms)?;
    Ok(Check { kind, interval_ms, timeout_ms, fail_after })
}

fn spec(app: &App, body: &SessionBody) -> Result<SessionSpec, Problem> {
    if body.lock_delay_ms.is_some_and(|delay| delay > MAX_LOCK_DELAY_MS) {
        let detail = format!("must be from 0 to {MAX_LOCK_DELAY_MS}");
        return Err(Problem::field("lock_delay_ms", detail));
    }
    let weight = body.weight.unwrap_or(1);
    if !(1..=1_000_000).contains(&weight) {
        return Err(Problem::field("weight", format!("is {weight}; it must be from 1 to 1000000")));
    }
    if body.pool.as_ref().is_some_and(|pool| pool.is_empty() || pool.len() > 64) {
        return Err(Problem::field("pool", "must be 1 to 64 bytes long"));
    }
    if body.checks.len() > MAX_CHECKS {
        let detail = format!("are {}; at most {MAX_CHECKS} are allowed", body.checks.len());
        return Err(Problem::field("checks", detail));
    }
    let checks = body.checks.iter().enumerate().map(|(at, body)| check(app, at, body));
    Ok(SessionSpec {
        behavior: match body.behavior {
            BehaviorName::Release => Behavior::Release,
            BehaviorName::Delete => Behavior::Delete,
        },
        lock_delay_ms: body.lock_delay_ms,
        pool: body.pool.as_deref().map(Into::into),
        weight,
        checks: checks.collect::<Result<_, _>>()?,
    })
}

impl CheckBody {
    fn of(check: &Check) -> Self {
        let Check { interval_ms, timeout_ms, fail_after, .. } = *check;
        match &check.kind {
            CheckKind::Http(url) => {
                Self::Http { url: url.to_string(), interval_ms, timeout_ms, fail_after }
            }
            CheckKind::Tcp(address) => {
                Self::Tcp { address: address.to_string(), interval_ms, timeout_ms, fail_after }
            }
            CheckKind::Exec(command) => {
                let command = command.iter().map(ToString::to_string).collect();
                Self::Exec { command, interval_ms, timeout_ms, fail_after }
            }
            CheckKind::Progress => Self::Progress { interval_ms, fail_after },
        }
    }
}

impl SessionWire {
    fn of(app: &App, session: &SessionView) -> Self {
        let SessionView { digest, view, spec, holdings } = session;
        let shown = super::wire::Lease::of(app, &crate::lease::Key::of_session(*digest), view);
        Self {
            digest: digest.to_string(),
            owner: shown.owner.unwrap_or_default(),
            ttl_ms: view.ttl_ms.unwrap_or(0),
            expires_in_ms: view.expires_in_ms,
            behavior: match spec.behavior {
                Behavior::Release => BehaviorName::Release,
                Behavior::Delete => BehaviorName::Delete,
            },
            lock_delay_ms: spec.lock_delay_ms,
            pool: spec.pool.as_deref().map(Into::into),
            weight: spec.weight,
            checks: spec.checks.iter().map(CheckBody::of).collect(),
            leases: holdings.map(HoldingsWire::from),
            node: shown.node,
            created_at: shown.acquired_at,
        }
    }
}

impl From<crate::actor::Holdings> for HoldingsWire {
    fn from(holdings: crate::actor::Holdings) -> Self {
        Self { count: holdings.count, digest: holdings.digest }
    }
}

/// Make a session.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = SessionBody, responses(
    (status = 201, description = "It lives", body = OpenedWire),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 503, description = "`store-unavailable`, `store-frozen`, `node-lapsed` or `draining`", body = Problem),
    (status = 507, description = "`store-full` or `too-many-keys`", body = Problem),
))]
pub async fn open(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<SessionBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let result = async {
        let owner = owner("owner", &body.0.owner)?;
        let spec = spec(&app, &body.0)?;
        let opened = app.manager.open_session(&owner, body.0.ttl_ms, spec, received).await;
        opened.map_err(|error| Problem::session(&error))
    };
    match result.await {
        Ok(opened) => {
            let session = SessionWire::of(&app, &opened.session);
            let (id, valid_for_ms) = (opened.id.reveal(), opened.valid_for_ms);
            json(&request, StatusCode::CREATED, &OpenedWire { id, valid_for_ms, session })
        }
        Err(problem) => problem.respond(&request),
    }
}

/// Keep a session, and with it every lease of it.
#[utoipa::path(post, path = "/v1/sessions/{id}/heartbeat", tag = "sessions",
    params(("id" = String, Path, description = "The session's id")), request_body = Option<BeatBody>, responses(
    (status = 200, description = "It lives", body = BeatWire),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`session-lost`, with the reason", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable` or `node-lapsed`", body = Problem),
))]
pub async fn heartbeat(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
    body: OptionalBody<BeatBody>,
) -> HttpResponse {
    act_at_home(&request, &app, &body.1, async |asked: Asked| {
        let id = session_id("id", &path)?;
        let alive = app.manager.beat_session(id, body.0.progress.as_deref(), asked).await;
        let alive = alive.map_err(|error| Problem::session(&error))?;
        let notice = |key: crate::lease::Key| Notice { kind: "revoked", key: key.as_str().into() };
        let beat = BeatWire {
            valid_for_ms: alive.valid_for_ms,
            leases: alive.holdings.into(),
            notices: alive.revoked.into_iter().map(notice).collect(),
        };
        Ok(json(&request, StatusCode::OK, &beat))
    })
    .await
}

/// End a session, and every lease of it.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's id")), responses(
    (status = 200, description = "It is over, now or before", body = ClosedWire),
    (status = 400, description = "It is no session id", body = Problem),
    (status = 409, description = "`session-lost`: there is no such session", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable` or `node-lapsed`", body = Problem),
))]
pub async fn close(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    act_at_home(&request, &app, &bytes::Bytes::new(), async |asked: Asked| {
        let id = session_id("id", &path)?;
        let destroyed = app.manager.close_session(id, asked).await;
        let destroyed = destroyed.map_err(|error| Problem::session(&error))?;
        Ok(json(&request, StatusCode::OK, &ClosedWire { destroyed }))
    })
    .await
}

/// Look at a session.
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's id, or its digest")), responses(
    (status = 200, description = "It lives, or was not found to be over", body = SessionWire),
    (status = 400, description = "It is neither", body = Problem),
    (status = 404, description = "`unknown-session`: it is over, or never was", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    let result = async {
        let digest = match session_id("id", &path) {
            Ok(id) => id.digest,
            Err(problem) => digest_of(&path).map_err(|_| problem)?,
        };
        let found = app.manager.session(digest).await;
        found.map_err(|trouble| Problem::trouble(&trouble))?.ok_or_else(Problem::unknown_session)
    };
    match result.await {
        Ok(session) => json(&request, StatusCode::OK, &SessionWire::of(&app, &session)),
        Err(problem) => problem.respond(&request),
    }
}

/// List sessions.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(SessionsQuery), responses(
    (status = 200, description = "A page of them", body = SessionsWire),
    (status = 400, description = "A parameter is not valid", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        let wanted: SessionsQuery = query(&request)?;
        let limit = wanted.limit.unwrap_or(100);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let detail = format!("is {limit}; it must be from 1 to {MAX_LIMIT}");
            return Err(Problem::field("limit", detail));
        }
        let of = wanted.owner.as_deref().map(|text| owner("owner", text)).transpose()?;
        let after = wanted.after.as_deref().map(digest_of).transpose();
        let after = after.map_err(|_| Problem::field("after", "is no `next` of a page"))?;
        let page = app.manager.sessions(of.as_ref(), after, limit).await;
        page.map_err(|trouble| Problem::trouble(&trouble))
    };
    match result.await {
        Ok((sessions, next)) => {
            let sessions = sessions.iter().map(|session| SessionWire::of(&app, session)).collect();
            let next = next.map(|digest| digest.to_string());
            json(&request, StatusCode::OK, &SessionsWire { sessions, next })
        }
        Err(problem) => problem.respond(&request),
    }
}
