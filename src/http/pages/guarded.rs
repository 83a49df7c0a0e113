//! The headers that protect a page.

use actix_web::{HttpResponse, HttpResponseBuilder, http::header};

/// An answer with the headers that protect a page, under this content security policy.
pub fn guarded(kind: &str, policy: &'static str) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((header::CONTENT_TYPE, kind))
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CACHE_CONTROL, "no-cache"));
    response
}
