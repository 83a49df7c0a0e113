//! The status page.

use actix_web::{HttpResponse, web};

use super::guarded::guarded;

/// The policy of the status page: scripts and styles come only from this server.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; object-src 'none'; frame-ancestors 'none'";

fn asset(kind: &'static str, text: &'static str) -> HttpResponse {
    guarded(kind, POLICY).body(text)
}

async fn status() -> HttpResponse {
    asset("text/html; charset=utf-8", include_str!("assets/status.html"))
}

async fn status_script() -> HttpResponse {
    asset("text/javascript; charset=utf-8", include_str!("assets/status.js"))
}

async fn style() -> HttpResponse {
    asset("text/css; charset=utf-8", include_str!("assets/style.css"))
}

/// Adds the page and its files.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/", web::get().to(status))
        .route("/", web::head().to(status))
        .route("/assets/status.js", web::get().to(status_script))
        .route("/assets/style.css", web::get().to(style));
}
