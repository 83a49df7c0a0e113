//! The page at `/`: what needs a person, who holds what, what changed, and orders.
//!
//! It shows nothing by itself: it calls the API of the node, with the rights of whoever sits before it.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};

use super::{
    files::{FILES, File, PAGE},
    guarded::guarded,
};

/// The policy of the page: scripts, styles and answers come from this server alone, and no text becomes a script or an
/// element.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

async fn page(request: HttpRequest) -> HttpResponse {
    serve(&request, &PAGE)
}

async fn asset(request: HttpRequest, name: web::Path<String>) -> HttpResponse {
    match FILES.get(name.as_str()) {
        Some(file) => serve(&request, file),
        None => HttpResponse::NotFound().finish(),
    }
}

/// Answers with a file, or says that the browser has it.
fn serve(request: &HttpRequest, file: &File) -> HttpResponse {
    let mut response = guarded(file.kind, POLICY);
    response.insert_header((header::ETAG, file.tag.as_str()));
    if has(request, &file.tag) {
        return response.status(StatusCode::NOT_MODIFIED).finish();
    }
    response.body(file.body.clone())
}

/// Whether the browser says that it has the content with this tag.
fn has(request: &HttpRequest, tag: &str) -> bool {
    let told = request.headers().get_all(header::IF_NONE_MATCH);
    let mut tags = told.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
    tags.any(|one| one.trim().trim_start_matches("W/") == tag)
}

/// Adds the page and its files.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/", web::get().to(page))
        .route("/", web::head().to(page))
        .route("/assets/{name}", web::get().to(asset));
}
