//! The headers by which a caller recognizes the answer to its request.

use actix_web::{HttpRequest, http::header};

const REQUEST_ID: header::HeaderName = header::HeaderName::from_static("x-request-id");
const TRACE_PARENT: header::HeaderName = header::HeaderName::from_static("traceparent");

/// Copies the headers by which a caller recognizes its request.
pub fn echo_request_id(request: &HttpRequest, headers: &mut header::HeaderMap) {
    for name in [&REQUEST_ID, &TRACE_PARENT] {
        if let Some(value) = request.headers().get(name) {
            headers.insert(name.clone(), value.clone());
        }
    }
}
