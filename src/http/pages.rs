//! Pages for people: the status page and the API page. Neither loads anything from another server.

use actix_web::{HttpResponse, HttpResponseBuilder, http::header, web};

use super::swagger;

/// The policy of the status page: scripts and styles come only from this server.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; object-src 'none'; frame-ancestors 'none'";
/// The policy of the API page. Swagger UI writes styles into the page.
const DOCS_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; \
                           form-action 'none'; object-src 'none'; frame-ancestors 'none'";

/// An answer with the headers that protect a page.
fn guarded(kind: &str, policy: &'static str) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((header::CONTENT_TYPE, kind))
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CACHE_CONTROL, "no-cache"));
    response
}

/// A file of the API page.
pub fn docs(kind: &str) -> HttpResponseBuilder {
    guarded(kind, DOCS_POLICY)
}

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

async fn to_docs() -> HttpResponse {
    HttpResponse::Found().insert_header((header::LOCATION, "/docs/")).finish()
}

/// Adds the pages.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/", web::get().to(status))
        .route("/", web::head().to(status))
        .route("/assets/status.js", web::get().to(status_script))
        .route("/assets/style.css", web::get().to(style))
        .route("/docs", web::get().to(to_docs))
        .configure(swagger::configure);
}
