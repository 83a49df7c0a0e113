//! The kind `webhook`: fences and is notified with an HTTP request.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use sha2::Sha256;

use super::{
    build_error::BuildError,
    contract::{FenceOrder, FencePlugin, Fencing, Notification},
    event,
    failure::{FailureKind, FenceError, chain},
};
use crate::{
    clock::Clock,
    settings::{Secret, WEBHOOK_SECRET},
    tls::{self, Roots},
};

/// How many bytes of a refusal are kept.
const KEPT_BODY: usize = 512;
/// How many idle connections are kept.
const IDLE: usize = 4;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Posts the order as a CloudEvent, signed by Standard Webhooks. A 2xx status confirms.
pub(super) struct Webhook {
    plugin: String,
    uri: ::http::Uri,
    keys: Vec<Hmac<Sha256>>,
    client: HttpClient,
    clock: Arc<dyn Clock>,
}

impl Webhook {
    pub(super) fn new(
        plugin: &str,
        url: &str,
        secrets: &[Secret],
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        let fault = |key, why: &str| BuildError::Setting { key, why: why.to_owned() };
        let uri: ::http::Uri = url.parse().map_err(|_| fault("url", "it is not a URL"))?;
        let secure = uri.scheme_str() == Some("https");
        let config = if secure { tls::client(Roots::System)? } else { tls::none() };
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
        let key = |secret: &Secret| {
            let text = secret.reveal();
            let bytes = STANDARD.decode(text.strip_prefix(WEBHOOK_SECRET).unwrap_or(text));
            let bytes = bytes.map_err(|_| fault("secrets", "one is not base64"))?;
            Ok(Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length"))
        };
        Ok(Self {
            plugin: plugin.to_owned(),
            uri,
            keys: secrets.iter().map(key).collect::<Result<_, BuildError>>()?,
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(IDLE)
                .build(connector.build()),
            clock,
        })
    }

    /// `v1,<base64>` for every key, separated by spaces.
    fn signatures(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let sign = |key: &Hmac<Sha256>| {
            let mut mac = key.clone();
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        };
        self.keys.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

impl FencePlugin for Webhook {
    fn fence(&self, order: FenceOrder) -> Fencing {
        let wall_ms = self.clock.wall_ms();
        let body = event::cloud_event(&self.plugin, &order, wall_ms);
        let parent = order.traceparent.as_deref();
        self.post(&event::id(&self.plugin, &order), body, wall_ms / 1000, parent)
    }

    fn notify(&self, notification: Notification) -> Fencing {
        let body = notification.event.as_bytes().to_vec();
        self.post(&notification.id, body, self.clock.wall_ms() / 1000, None)
    }
}

impl Webhook {
    /// Posts an event. `timestamp` is in seconds since 1970, `parent` the header `traceparent`.
    fn post(&self, id: &str, body: Vec<u8>, timestamp: u64, parent: Option<&str>) -> Fencing {
        let mut request = ::http::Request::post(self.uri.clone())
            .header("content-type", "application/cloudevents+json")
            .header("user-agent", concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", self.signatures(id, timestamp, &body));
        if let Some(parent) = parent {
            request = request.header("traceparent", parent);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.map_err(FenceError::permanent)?;
            let answer = client.request(request).await;
            let answer = answer.map_err(|error| {
                FenceError::of(FailureKind::of_connection(&error), chain(&error))
            })?;
            let status = answer.status();
            if status.is_success() {
                return Ok(());
            }
            let (mut body, mut said) = (answer.into_body(), Vec::new());
            while said.len() < KEPT_BODY
                && let Some(Ok(frame)) = body.frame().await
            {
                said.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
            }
            said.truncate(KEPT_BODY);
            Err(refusal(status, &said))
        })
    }
}

/// The error for a status that does not confirm. A redirect is not followed. Of the statuses that blame the request,
/// only a time-out and too many requests are worth another try.
fn refusal(status: ::http::StatusCode, said: &[u8]) -> FenceError {
    use ::http::StatusCode;
    let said = String::from_utf8_lossy(said);
    let again = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
    let error = FenceError::of(FailureKind::Status(status.as_u16()), said.trim());
    FenceError { permanent: !status.is_server_error() && !again, ..error }
}
