//! One stream per worker, as WebSocket.

use actix_web::{HttpRequest, HttpResponse, http::header, web};

use crate::{
    api::Code,
    http::{answer::Problem, app::App, stream::upgrade},
};

/// Open a stream: many calls in flight over one WebSocket, and notices at once.
///
/// A message of the client is a call: `{"id": 7, "op": "heartbeat", "body": {…}}`. `op` is an `operationId` of this
/// document, `body` is the body of its request, and `params` has the parameters of its path and of its query. The answer
/// is `{"id": 7, "status": 200, "body": {…}}`, with the status and the document of this document, a problem document
/// included, and with `retry_after` for the header `Retry-After`. Answers come in any order. A stream takes every
/// operation but `stream`, `livez`, `readyz` and `metrics`; of `events`, the form `json`. `watch` takes the parameters of
/// `events` without `after`, `format` and `wait_ms`, answers like it, and begins pushes of `{"event": {…}}`; `unwatch`
/// ends them. `{"notice": {…}}` tells at once that a lease or a session that the stream keeps is ending or must be
/// handed over. docs/stream.md has the bounds and the reasons for which a stream ends.
#[utoipa::path(get, operation_id = "stream", path = "/v1/stream", tag = "stream", responses(
    (status = 101, description = "The connection is a WebSocket from now on"),
    (status = 426, description = "`upgrade-required`: the request is no upgrade to a WebSocket", body = Problem),
    (status = 429, description = "`busy`: too many streams are open, or too many calls wait or stream", body = Problem),
    (status = 503, description = "`draining`", body = Problem),
))]
pub async fn stream(
    request: HttpRequest,
    app: web::Data<App>,
    payload: web::Payload,
) -> HttpResponse {
    match upgrade(&request, app, payload.into_inner()).await {
        Ok(response) => response,
        Err(problem) => {
            let is_plain = problem.code == Code::UpgradeRequired.as_str();
            let mut response = problem.respond(&request);
            if is_plain {
                let headers = response.headers_mut();
                let websocket = header::HeaderValue::from_static("websocket");
                headers.insert(header::UPGRADE, websocket);
                let version = header::HeaderValue::from_static("13");
                headers.insert(header::SEC_WEBSOCKET_VERSION, version);
            }
            response
        }
    }
}
