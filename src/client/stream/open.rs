//! Opens a stream: an HTTP request like all others, and its upgrade.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use reqwest::{StatusCode, Upgraded, Url, header};
use sha1::{Digest as _, Sha1};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};

use crate::{
    client::credentials::{self, Credentials},
    clock::{Entropy as _, SystemEntropy},
};

/// How long a server may take to upgrade.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a server appends to a key to prove that it speaks WebSocket (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest message that is read: as long as an answer may be.
const MOST: usize = 16 << 20;
/// The bytes that are read at a time. Answers to heartbeats are short.
const READ: usize = 16 * 1024;

/// The frames of a stream.
pub(super) type Socket = WebSocketStream<Upgraded>;

/// Why no stream is open.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unopened {
    /// The server answered with this status, and has no streams.
    Refused(u16),
    /// There was no answer, or none of a server that speaks WebSocket.
    Failed,
}

/// Opens a stream to a server.
pub(super) async fn open(
    http: &reqwest::Client,
    credentials: Option<&Credentials>,
    server: &Url,
) -> Result<Socket, Unopened> {
    let mut url = server.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["v1", "stream"]);
    }
    let key = BASE64.encode(SystemEntropy::new().nonce().0.to_be_bytes());
    let request = || {
        http.get(url.clone())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key)
    };
    let answered = credentials::send(credentials, server, request);
    let answered = tokio::time::timeout(PATIENCE, answered).await;
    let Ok(Ok(response)) = answered else { return Err(Unopened::Failed) };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Unopened::Refused(response.status().as_u16()));
    }
    let proof = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    if proof.is_none_or(|proof| proof.as_bytes() != accept(&key).as_bytes()) {
        return Err(Unopened::Failed);
    }
    let upgraded = tokio::time::timeout(PATIENCE, response.upgrade()).await;
    let Ok(Ok(upgraded)) = upgraded else { return Err(Unopened::Failed) };
    let config = WebSocketConfig::default()
        .read_buffer_size(READ)
        .max_message_size(Some(MOST))
        .max_frame_size(Some(MOST));
    Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await)
}

/// What a server answers to a key.
fn accept(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(GUID.as_bytes());
    BASE64.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_that_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
