//! An answer of success.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
};
use bytes::Bytes;
use serde::Serialize;

use super::ids::echo_request_id;

/// Answers with a success status and a JSON body.
pub fn json<T: Serialize>(request: &HttpRequest, status: StatusCode, body: &T) -> HttpResponse {
    rendered_json(request, status, serde_json::to_vec(body).unwrap_or_default().into())
}

/// The same, with a body that was rendered before.
pub fn rendered_json(request: &HttpRequest, status: StatusCode, bytes: Bytes) -> HttpResponse {
    let mut response = HttpResponse::build(status)
        .insert_header((header::CONTENT_TYPE, header::HeaderValue::from_static("application/json")))
        .body(bytes);
    echo_request_id(request, response.headers_mut());
    response
}
