//! Reads a body and keeps none of it, so that the connection can serve the next call.

use std::{future::poll_fn, rc::Rc, time::Duration};

use actix_web::{HttpRequest, dev::Payload, error::PayloadError, http::header};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::places::Seat;

/// How long a client may take to send a body after the head of its request.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest body that is read only to be discarded: as long as that of any call.
const MOST: usize = 1 << 20;

/// Discards the body of a call that is refused. If the body is too long, comes too slowly, or would become another
/// protocol, it is left unread, and the connection ends after the answer.
pub async fn discard(request: &HttpRequest, mut payload: Payload) {
    // What follows the head of an upgrade has no end.
    let is_read = !request.head().upgrade() && {
        let whole = actix_web::rt::time::timeout(BODY_TIMEOUT, is_whole(request, &mut payload));
        whole.await.unwrap_or(false)
    };
    if !is_read && let Some(seat) = request.conn_data::<Rc<Seat>>() {
        seat.refuse(payload);
    }
}

/// Reads to the end of a body. Returns whether it came to it.
async fn is_whole(request: &HttpRequest, payload: &mut Payload) -> bool {
    let (length, mut read) = (length(request), 0);
    if length > MOST {
        return false;
    }
    while let Some(chunk) = chunk(request, payload, length.saturating_sub(read)).await {
        read += chunk.map_or(MOST + 1, |chunk| chunk.len());
        if read > MOST {
            return false;
        }
    }
    true
}

/// The length of a body according to the request's head; 0 if the head does not say it.
pub fn length(request: &HttpRequest) -> usize {
    let said = request.headers().get(header::CONTENT_LENGTH).and_then(|said| said.to_str().ok());
    said.and_then(|said| said.parse().ok()).unwrap_or(0)
}

/// Reads the next piece of a body, of which `left` bytes are still to come, if that is known. Until it arrives, the
/// connection counts as idle.
pub async fn chunk(
    request: &HttpRequest,
    payload: &mut Payload,
    left: usize,
) -> Option<Result<Bytes, PayloadError>> {
    let mut reading = None;
    poll_fn(|context| {
        let chunk = payload.poll_next_unpin(context);
        if chunk.is_pending() && reading.is_none() {
            let seat = request.conn_data::<Rc<Seat>>();
            reading = seat.map(|seat| seat.read(left as u64));
        }
        chunk
    })
    .await
}
