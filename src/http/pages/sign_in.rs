//! Signing in to the status page: a token once, then a cookie that is good for reading alone.

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use serde::Deserialize;

use crate::{
    clock::{Clock as _, SystemClock},
    http::{
        answer::Problem,
        app::App,
        caller::COOKIE,
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

async fn sign_in(request: HttpRequest, app: web::Data<App>, body: Body<SignIn>) -> HttpResponse {
    let Some(access) = &app.access else { return HttpResponse::NoContent().finish() };
    match app.cookies.seal(&access.load(), &body.0.token, SystemClock::new().wall_ms()) {
        Some(cookie) => set(&app, &cookie, ""),
        None => Problem::unauthenticated().respond(&request),
    }
}

async fn sign_out(app: web::Data<App>) -> HttpResponse {
    set(&app, "", "; Max-Age=0")
}

/// The browser keeps the cookie until it is closed, and sends it with requests of this origin's pages alone.
fn set(app: &App, cookie: &str, more: &str) -> HttpResponse {
    let secure = if app.source.node.starts_with("https:") { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    HttpResponse::NoContent().insert_header((header::SET_COOKIE, cookie)).finish()
}

/// Adds the paths.
pub fn configure(config: &mut web::ServiceConfig) {
    config.route("/sign-in", web::post().to(sign_in)).route("/sign-out", web::post().to(sign_out));
}
