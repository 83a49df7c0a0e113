//! The kind `nats`: fences and is notified with a message on a subject.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Client, Request,
    jetstream::{context::ContextBuilder, message::PublishMessage},
};
use bytes::Bytes;
use tokio::sync::Mutex;

use super::{
    build_error::BuildError,
    contract::{FenceOrder, FencePlugin, Fencing, Notification},
    event,
    failure::{FailureKind, FenceError, chain},
};
use crate::{
    clock::Clock,
    settings::{self, NatsMode, NatsPlugin, PluginKind},
    store::nats::{self, Options},
};

/// A try is dropped when its time is over. The client library's own time-out must not come earlier.
const LONG: Duration = Duration::from_secs(2 * 3600);
/// How many bytes of a refusal are kept.
const KEPT_ANSWER: usize = 512;

/// Makes the plugin of a `[[plugin]]` of kind `nats`. It uses the store's servers if the settings name none.
pub(super) fn build(
    plugin: &settings::Plugin,
    store: &settings::Nats,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn FencePlugin>, BuildError> {
    let PluginKind::Nats(NatsPlugin { servers, subject, mode }) = &plugin.kind else {
        unreachable!("a plugin of another kind is built elsewhere")
    };
    let options = Options::of(servers.as_deref().unwrap_or(store))?;
    Ok(Arc::new(NatsFence::new(&plugin.name, options, subject, *mode, clock)))
}

/// Sends the order as a CloudEvent. An answer that begins with `+OK` or `ok`, or the acknowledgement of a stream,
/// confirms.
pub(super) struct NatsFence(Arc<Inner>);

struct Inner {
    plugin: String,
    options: Options,
    subject: String,
    mode: NatsMode,
    clock: Arc<dyn Clock>,
    /// Made by the first try, and again after one that failed.
    client: Mutex<Option<Client>>,
}

impl NatsFence {
    pub(super) fn new(
        plugin: &str,
        options: Options,
        subject: &str,
        mode: NatsMode,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (plugin, subject) = (plugin.to_owned(), subject.to_owned());
        Self(Arc::new(Inner { plugin, options, subject, mode, clock, client: Mutex::default() }))
    }
}

impl FencePlugin for NatsFence {
    fn fence(&self, order: FenceOrder) -> Fencing {
        let inner = self.0.clone();
        Box::pin(async move {
            let id = event::id(&inner.plugin, &order);
            let payload = event::cloud_event(&inner.plugin, &order, inner.clock.wall_ms());
            inner.tell(id, payload.into()).await
        })
    }

    fn notify(&self, notification: Notification) -> Fencing {
        let inner = self.0.clone();
        let payload = Bytes::copy_from_slice(notification.event.as_bytes());
        Box::pin(async move { inner.tell(notification.id.into(), payload).await })
    }
}

impl Inner {
    async fn tell(&self, id: String, payload: Bytes) -> Result<(), FenceError> {
        let client = self.client().await?;
        let outcome = self.send(&client, id, payload).await;
        if outcome.is_err() {
            // The client's runtime may have ended, or its server may be gone.
            *self.client.lock().await = None;
        }
        outcome
    }

    async fn client(&self) -> Result<Client, FenceError> {
        let mut kept = self.client.lock().await;
        if let Some(client) = &*kept {
            return Ok(client.clone());
        }
        let client = nats::client(&self.options).await;
        let client = client.map_err(|error| FenceError::of(FailureKind::CannotConnect, error))?;
        Ok(kept.insert(client).clone())
    }

    async fn send(&self, client: &Client, id: String, payload: Bytes) -> Result<(), FenceError> {
        let refused =
            |error: &dyn std::error::Error| FenceError::of(FailureKind::Unconfirmed, chain(error));
        match self.mode {
            NatsMode::Request => {
                let mut headers = async_nats::HeaderMap::new();
                headers.insert(async_nats::header::NATS_MESSAGE_ID, id.as_str());
                let request = Request::new().payload(payload).headers(headers).timeout(Some(LONG));
                let answer = client.send_request(self.subject.clone(), request).await;
                let answer = answer.map_err(|error| refused(&error))?;
                judge(&answer.payload)
            }
            NatsMode::Publish => {
                let stream =
                    ContextBuilder::new().timeout(LONG).ack_timeout(LONG).build(client.clone());
                let message = PublishMessage::build().payload(payload).message_id(id);
                let sent = stream.send_publish(self.subject.clone(), message).await;
                let sent = sent.map_err(|error| refused(&error))?;
                let stored = sent.await;
                stored.map(drop).map_err(|error| refused(&error))
            }
        }
    }
}

/// An answer confirms if it begins with the word `+OK` or `ok`, in upper or lower case.
fn judge(answer: &[u8]) -> Result<(), FenceError> {
    let begins = |word: &[u8]| {
        let head = answer.get(..word.len());
        let after = answer.get(word.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word)) && after
    };
    if begins(b"+OK") || begins(b"ok") {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&answer[..answer.len().min(KEPT_ANSWER)]);
    let why = format!("answered {:?}, neither +OK nor ok", said.trim());
    Err(FenceError::of(FailureKind::Unconfirmed, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_begins_with_the_word_confirms() {
        for answer in ["+OK", "ok", "OK\r\n", "+ok port 7 is shut", "ok."] {
            assert_eq!(judge(answer.as_bytes()), Ok(()), "{answer}");
        }
        for answer in ["", "+", "o", "okay", "-ERR ok", " ok", "not ok", "OK2"] {
            assert!(judge(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
