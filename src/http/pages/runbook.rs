//! The runbook of the alerts, as text.

use actix_web::{HttpResponse, guard, web};

use super::guarded::guarded;
use crate::telemetry::runbook;

const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";
const KIND: &str = "text/plain; charset=utf-8";

async fn whole() -> HttpResponse {
    guarded(KIND, POLICY).body(runbook::whole())
}

async fn section(name: web::Path<String>) -> HttpResponse {
    match runbook::section(&name) {
        Some(section) => guarded(KIND, POLICY).body(section),
        None => HttpResponse::NotFound().finish(),
    }
}

/// Adds the whole runbook, and each of its sections.
pub fn configure(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/docs/runbook").guard(guard::Get()).to(whole))
        .service(web::resource("/docs/runbook/{name}").guard(guard::Get()).to(section));
}
