//! Runs an open stream: sends heartbeats, and hands on answers and notices.

use std::{collections::HashMap, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    beat::{Answer, Request},
    nudges::{Nudges, Told},
    open::Socket,
};

/// A stream that was not used for this long, and that nobody needs, is closed.
const IDLE: Duration = Duration::from_secs(120);
/// How long a server may take to read.
const SEND: Duration = Duration::from_secs(5);
/// The most heartbeats that are sent in one write.
const TOGETHER: usize = 64;

#[derive(Serialize)]
struct Call<'a> {
    id: u64,
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a Value>,
}

/// A message of the server.
#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    status: u16,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
    #[serde(default)]
    notice: Option<Told>,
}

/// The heartbeats without an answer.
type Waiting = HashMap<u64, oneshot::Sender<Answer>>;

/// Runs until the stream ends, or nobody needs it any more. Heartbeats without an answer then have none.
pub(super) async fn run(
    mut socket: Socket,
    mut requests: mpsc::Receiver<Request>,
    nudges: &Nudges,
) {
    let (mut waiting, mut next) = (Waiting::new(), 0);
    loop {
        tokio::select! {
            biased;
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => hear(text.as_str(), &mut waiting, nudges),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            request = requests.recv() => {
                let Some(request) = request else { break };
                let mut together = vec![request];
                while together.len() < TOGETHER && let Ok(more) = requests.try_recv() {
                    together.push(more);
                }
                if !send(&mut socket, together, &mut waiting, &mut next).await {
                    return;
                }
            }
            () = sleep(IDLE), if waiting.is_empty() => {
                if nudges.is_empty() {
                    break;
                }
            }
        }
    }
    let _ = timeout(SEND, socket.close(None)).await;
}

fn hear(text: &str, waiting: &mut Waiting, nudges: &Nudges) {
    let Ok(message) = serde_json::from_str::<Incoming<'_>>(text) else { return };
    if let Some(told) = message.notice {
        nudges.tell(&told);
    }
    if let Some(waits) = message.id.and_then(|id| waiting.remove(&id)) {
        let body = message.body.map(|body| body.get().as_bytes().to_vec());
        // Whoever asked may have left.
        let _ = waits.send(Answer { status: message.status, body: body.unwrap_or_default() });
    }
}

/// Sends heartbeats in one write. Returns whether the stream goes on.
async fn send(
    socket: &mut Socket,
    together: Vec<Request>,
    waiting: &mut Waiting,
    next: &mut u64,
) -> bool {
    // Those that nobody waits for any more.
    waiting.retain(|_, waits| !waits.is_closed());
    let sending = async {
        for Request { op, params, body, answer } in together {
            let call = Call { id: *next, op, params: params.as_ref(), body: body.as_ref() };
            let Ok(text) = serde_json::to_string(&call) else { continue };
            waiting.insert(*next, answer);
            *next += 1;
            if socket.feed(Message::text(text)).await.is_err() {
                return false;
            }
        }
        socket.flush().await.is_ok()
    };
    timeout(SEND, sending).await.unwrap_or(false)
}
