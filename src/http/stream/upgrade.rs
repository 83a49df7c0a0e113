//! Admits a stream.

use std::{cell::RefCell, rc::Rc};

use actix_http::ws;
use actix_web::{
    HttpRequest, HttpResponse,
    body::BodyStream,
    dev::Payload,
    http::{StatusCode, header},
    web,
};

use super::{
    body::Body,
    calls::{Calls, Inside},
    frames::Frames,
    talk::Talk,
};
use crate::{
    api::Code,
    http::{
        answer::{Problem, echo_request_id},
        app::App,
        caller::{Caller, Kind, Payer, PeerUid, Within},
        door::Waiting,
        following::Following,
    },
    manager::CallError,
};

/// Opens a stream.
///
/// # Errors
/// The request is no upgrade to a WebSocket, or there are too many streams.
pub async fn upgrade(
    request: &HttpRequest,
    app: web::Data<App>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let key = key.filter(|_| ws::verify_handshake(request.head()).is_ok());
    let key = key.ok_or_else(|| {
        let detail = "this path speaks WebSocket, version 13; see docs/stream.md";
        Problem::of(Code::UpgradeRequired, detail)
    })?;
    if app.manager.is_draining() {
        return Err(Problem::call(&CallError::Draining));
    }
    let inside = request.app_data::<Rc<Inside>>();
    let serve = match inside {
        Some(inside) => inside.serve().await,
        None => None,
    };
    let serve = serve.ok_or_else(|| Problem::of(Code::Internal, "this server has no streams"))?;
    let open = app.streams.open()?;
    let caller = Caller::of(request);
    let in_use = caller.uses(Kind::Streams)?;
    let place = Waiting::of(request)?;
    place.converse();
    let calls = Calls {
        serve,
        within: Within { caller: caller.clone(), uid: PeerUid::of(request) },
        following: Following(Rc::new(RefCell::new(app.manager.follower()))),
        peer: request.peer_addr(),
    };
    let frames = Frames::new(payload, app.bodies.clone(), Payer::of_request(request));
    let talk = Talk::new(app, caller, calls, frames, open, (place, in_use));
    let accepts = ws::hash_key(key.as_bytes());
    let response = HttpResponse::build(StatusCode::SWITCHING_PROTOCOLS)
        .upgrade("websocket")
        .insert_header((header::SEC_WEBSOCKET_ACCEPT, &accepts[..]))
        .message_body(BodyStream::new(Body::new(talk)));
    // No header here is malformed.
    let response = response.map_err(|error| Problem::of(Code::Internal, error.to_string()))?;
    let mut response = response.map_into_boxed_body();
    echo_request_id(request, response.headers_mut());
    Ok(response)
}
