//! The connection.

use std::{future::ready, sync::Arc, time::Duration};

use async_nats::{
    Client, ConnectOptions, Event, ServerAddr,
    jetstream::{self, context::ContextBuilder},
};
use tokio::{sync::watch, time::timeout};

use super::{
    core::MAX_ON_THEIR_WAY,
    credentials::Credentials,
    error::{NatsOpenError, OLDEST_SERVER},
    link::Link,
    options::{MAX_HISTORY, Options},
    subject::Subjects,
};
use crate::settings;

/// How often an idle connection is checked. It is closed after three checks without an answer. A server that
/// stopped without closing its connections costs about three such spans, which is the ttl of a node.
const PING: Duration = Duration::from_secs(1);
/// How long one server may take to answer.
const CONNECT: Duration = Duration::from_secs(2);
/// How long all servers together may take when the store is opened.
const CONNECT_ALL: Duration = Duration::from_secs(10);
/// The longest pause between attempts to reconnect. The pause grows with each attempt.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Refuses settings that cannot work.
pub(super) fn validate(options: &Options) -> Result<(), NatsOpenError> {
    let fault = |setting, why: &str| Err(NatsOpenError::Setting { setting, why: why.to_owned() });
    let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if options.bucket.is_empty() || !options.bucket.bytes().all(name) {
        return fault("store.nats.bucket", "must be letters, digits, - and _");
    }
    if !(1..=MAX_HISTORY).contains(&options.history) {
        return fault("store.nats.history", "must be 1 to 64");
    }
    if !(1..=5).contains(&options.replicas) {
        return fault("store.nats.replicas", "must be 1 to 5");
    }
    if options.request_timeout.is_zero() {
        return fault("store.nats.request_timeout", "must be above 0");
    }
    let has_password = options.password.is_some() || options.password_file.is_some();
    if options.user.is_some() != has_password {
        return fault("store.nats.user", "needs store.nats.password, and the other way round");
    }
    if options.tls.cert.is_some() != options.tls.key.is_some() {
        return fault("store.nats.tls.cert", "needs store.nats.tls.key, and the other way round");
    }
    Ok(())
}

fn servers(url: &str) -> Result<Vec<ServerAddr>, NatsOpenError> {
    let fault = |why: String| NatsOpenError::Setting { setting: "store.nats.url", why };
    let servers: Vec<ServerAddr> = url
        .split(',')
        .map(str::trim)
        .filter(|server| !server.is_empty())
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|why| fault(format!("cannot be read: {why}")))?;
    if servers.is_empty() { Err(fault("names no server".to_owned())) } else { Ok(servers) }
}

async fn connect_options(
    options: &Options,
    connections: watch::Sender<u64>,
) -> Result<ConnectOptions, NatsOpenError> {
    if options.keeps_to_loopback() && !settings::all_loopback(&options.url) {
        let why = "sends credentials in plain text: use tls://, or set accept_plaintext".into();
        return Err(NatsOpenError::Setting { setting: "store.nats.url", why });
    }
    let connections = Arc::new(connections);
    let mut connect = if options.proves_itself() {
        let credentials = Arc::new(Credentials::open(options).await?);
        ConnectOptions::with_auth_callback(move |nonce| {
            let credentials = credentials.clone();
            async move { credentials.answer(&nonce).await }
        })
    } else {
        ConnectOptions::new()
    };
    connect = connect
        .name("tenure")
        .ping_interval(PING)
        .connection_timeout(CONNECT)
        .request_timeout(Some(options.request_timeout))
        .max_reconnects(None)
        .reconnect_delay_callback(|attempts| {
            let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
            MAX_DELAY.min(Duration::from_millis(25).saturating_mul(attempts.saturating_sub(1)))
        })
        .client_capacity(MAX_ON_THEIR_WAY as usize)
        .require_tls(options.requires_tls())
        .event_callback(move |event| {
            if matches!(event, Event::Connected) {
                connections.send_modify(|count| *count += 1);
            }
            match event {
                Event::ServerError(_) | Event::SlowConsumer(_) => tracing::warn!("NATS: {event}"),
                event => tracing::info!("NATS: {event}"),
            }
            ready(())
        });
    if options.keeps_to_loopback() {
        // A server names its neighbors, which may be on other machines.
        connect = connect.ignore_discovered_servers();
    }
    if let Some(ca) = &options.tls.ca {
        connect = connect.add_root_certificates(ca.clone());
    }
    if let (Some(cert), Some(key)) = (&options.tls.cert, &options.tls.key) {
        connect = connect.add_client_certificate(cert.clone(), key.clone());
    }
    Ok(connect)
}

/// A connection without a bucket. It ends with the runtime that it was made in.
///
/// # Errors
/// [`NatsOpenError`] if the options cannot work, or if no server answers.
pub(crate) async fn client(options: &Options) -> Result<Client, NatsOpenError> {
    let connect = connect_options(options, watch::channel(0).0).await?;
    let connected = timeout(CONNECT_ALL, connect.connect(servers(&options.url)?)).await;
    match connected {
        Ok(connected) => connected.map_err(|why| NatsOpenError::Connect { why: why.to_string() }),
        Err(_) => Err(NatsOpenError::Connect { why: "no answer in time".to_owned() }),
    }
}

/// Connects, and refuses a server that is too old.
pub(super) async fn connect(options: &Options) -> Result<Link, NatsOpenError> {
    let servers = servers(&options.url)?;
    let (counter, connections) = watch::channel(0);
    let connect = connect_options(options, counter).await?;
    let connected = timeout(CONNECT_ALL, connect.connect(servers)).await;
    let client: Client = match connected {
        Ok(Ok(client)) => client,
        Ok(Err(why)) => return Err(NatsOpenError::Connect { why: why.to_string() }),
        Err(_) => return Err(NatsOpenError::Connect { why: "no answer in time".to_owned() }),
    };
    let (major, minor, patch) = OLDEST_SERVER;
    if !client.is_server_compatible(major, minor, patch) {
        return Err(NatsOpenError::OldServer { found: client.server_info().version });
    }
    let context: jetstream::Context =
        ContextBuilder::new().timeout(options.request_timeout).build(client.clone());
    let subjects = Subjects::new(&options.bucket);
    let stream = context.get_stream_no_info(&subjects.stream).await;
    let stream = stream.map_err(NatsOpenError::interrupted)?;
    let timeout = options.request_timeout;
    Ok(Link { client, context, stream, subjects: subjects.into(), timeout, connections })
}
