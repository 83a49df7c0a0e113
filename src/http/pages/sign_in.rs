//! Signing in to the page: a token once, then a cookie that is good for reading alone.

use std::collections::BTreeMap;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use serde::{Deserialize, Serialize};

use crate::{
    access::{Credential, Principal, TokenDigest, Verb},
    clock::{Clock as _, SystemClock},
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        request::{Body, Bounded},
    },
};

/// What the page sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

impl Bounded for SignIn {
    const MOST: usize = 1024;
}

/// Who the browser is to this node, and what that principal may do: the page has buttons for that.
#[derive(Serialize)]
struct Who<'a> {
    /// Whether callers are not authenticated.
    open: bool,
    /// The principal; null if the browser has not signed in.
    name: Option<&'a str>,
    /// Whether the browser shows a cookie. An order then needs a token beside it.
    cookie: bool,
    /// For each verb, the prefixes of the keys to which the principal may do this.
    may: BTreeMap<&'static str, Vec<&'a str>>,
    /// For each verb, the single keys to which the principal may do this. Each has its permits with it.
    may_keys: BTreeMap<&'static str, Vec<&'a str>>,
}

async fn who(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let caller = Caller::of(&request);
    let account = caller.account();
    let rights = || {
        let verbs = |principal| {
            Verb::ALL.map(move |verb| (verb.as_str(), Principal::keys(principal, verb)))
        };
        account.into_iter().flat_map(move |principal| verbs(principal))
    };
    let who = Who {
        open: app.access.is_none(),
        name: account.map(|principal| &*principal.name),
        cookie: app.cookies.shown(&request).is_some(),
        may: rights().map(|(verb, keys)| (verb, keys.prefixes().collect())).collect(),
        may_keys: rights().map(|(verb, keys)| (verb, keys.singles().collect())).collect(),
    };
    json(&request, StatusCode::OK, &who)
}

async fn sign_in(request: HttpRequest, app: web::Data<App>, body: Body<SignIn>) -> HttpResponse {
    let Some(access) = &app.access else { return HttpResponse::NoContent().finish() };
    let (token, now_ms) = (&body.0.token, SystemClock::new().wall_ms());
    let shown = Credential::Bearer(TokenDigest::of(token));
    let file = access.load();
    let is_revoked =
        file.by_token(token).is_some_and(|it| access.revokes(&it.name, &shown, now_ms));
    match app.cookies.seal(&file, token, now_ms).filter(|_| !is_revoked) {
        Some(cookie) => set(&app, Some(&cookie)),
        None => Problem::unauthenticated().respond(&request),
    }
}

async fn sign_out(app: web::Data<App>) -> HttpResponse {
    set(&app, None)
}

fn set(app: &App, cookie: Option<&str>) -> HttpResponse {
    let cookie = app.cookies.set(cookie);
    HttpResponse::NoContent().insert_header((header::SET_COOKIE, cookie)).finish()
}

/// Adds the paths.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/sign-in", web::get().to(who))
        .route("/sign-in", web::post().to(sign_in))
        .route("/sign-out", web::post().to(sign_out));
}
