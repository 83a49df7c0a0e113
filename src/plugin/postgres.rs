//! The kind `postgres`: fences and is notified with a row in a table.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Client, Config, NoTls,
    config::SslMode,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
    types::ToSql,
};
use tokio_rustls::{TlsConnector, client::TlsStream as Stream};

use super::{
    build_error::BuildError,
    contract::{FenceOrder, FencePlugin, Fencing, Notification},
    failure::{FailureKind, FenceError, chain},
};
use crate::{
    clock::Clock,
    settings::{self, Nats, Plugin, PluginKind, PostgresPlugin},
    tls::{self, Roots},
};

/// How many unused connections are kept.
const IDLE: usize = 4;

/// Makes the plugin of a `[[plugin]]` of kind `postgres`.
pub(super) fn build(
    plugin: &Plugin,
    _store: &Nats,
    _clock: Arc<dyn Clock>,
) -> Result<Arc<dyn FencePlugin>, BuildError> {
    let PluginKind::Postgres(postgres) = &plugin.kind else {
        unreachable!("a plugin of another kind is built elsewhere")
    };
    let url = postgres.url.or_file("url_file", &postgres.url_file)?.unwrap_or_default();
    Ok(Arc::new(Postgres::new(&url, postgres, plugin.timeout)?))
}

/// Raises the key's token in a table, where guarded writes check it. A write in progress locks the row, so a fence
/// waits until it is over.
pub(super) struct Postgres(Arc<Inner>);

struct Inner {
    config: Config,
    tls: Option<Tls>,
    raise: String,
    note: String,
    /// A try that was dropped leaves a statement behind for at most this long.
    timeout: Duration,
    idle: Mutex<Vec<Client>>,
}

impl Postgres {
    pub(super) fn new(
        url: &str,
        settings: &PostgresPlugin,
        timeout: Duration,
    ) -> Result<Self, BuildError> {
        // The library's error may quote the URL.
        let fault =
            |_| BuildError::Setting { key: "url", why: "it is not a PostgreSQL URL".into() };
        let mut config: Config = url.parse().map_err(fault)?;
        // The URL may come from a file that changed since the settings were validated.
        if let Some(why) = settings::of_postgres(&config).filter(|_| !settings.accept_plaintext) {
            return Err(BuildError::Setting { key: "url", why });
        }
        config.application_name("tenure");
        let required = config.get_ssl_mode() == SslMode::Require;
        let tls = required.then(|| tls::client(Roots::System)).transpose()?;
        let table = quoted(&settings.table);
        let raise = format!(
            "INSERT INTO {table} AS fence (key, token) VALUES ($1, $2) ON CONFLICT (key) \
             DO UPDATE SET token = GREATEST(fence.token, EXCLUDED.token)"
        );
        let note = format!(
            "INSERT INTO {} (id, kind, key, token, event) VALUES ($1, $2, $3, $4, $5::text::jsonb) \
             ON CONFLICT (id) DO NOTHING",
            quoted(&settings.event_table)
        );
        let tls = tls.map(|config| Tls(TlsConnector::from(Arc::new(config))));
        Ok(Self(Arc::new(Inner { config, tls, raise, note, timeout, idle: Mutex::default() })))
    }
}

impl FencePlugin for Postgres {
    fn fence(&self, order: FenceOrder) -> Fencing {
        let inner = self.0.clone();
        Box::pin(async move {
            let token = i64::try_from(order.token.0).map_err(FenceError::permanent)?;
            inner.execute(&inner.raise, &[&order.key.as_str(), &token]).await
        })
    }

    fn notify(&self, notification: Notification) -> Fencing {
        let inner = self.0.clone();
        Box::pin(async move {
            let (id, kind, event) = (&*notification.id, notification.kind(), &*notification.event);
            let change = notification.change.as_ref();
            let key = change.map(|committed| committed.key.as_str());
            let token = change.map(|committed| i64::try_from(committed.change.token.0));
            let token = token.transpose().map_err(FenceError::permanent)?;
            inner.execute(&inner.note, &[&id, &kind, &key, &token, &event]).await
        })
    }
}

/// The name of a table, perhaps with its schema, in quotes.
fn quoted(table: &str) -> String {
    let names: Vec<String> = table.split('.').map(|name| format!("\"{name}\"")).collect();
    names.join(".")
}

impl Inner {
    async fn execute(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<(), FenceError> {
        let fault = |error: tokio_postgres::Error| {
            let refused = error.as_db_error().is_some();
            let kind =
                if refused { FailureKind::Unconfirmed } else { FailureKind::of_connection(&error) };
            FenceError::of(kind, chain(&error))
        };
        let client = self.client().await.map_err(fault)?;
        client.execute(statement, values).await.map_err(fault)?;
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(client);
        }
        Ok(())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for one try alone: a statement that waits delays no other one.
    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        let kept = {
            let mut idle = self.idle();
            idle.retain(|client| !client.is_closed());
            idle.pop()
        };
        if let Some(client) = kept {
            return Ok(client);
        }
        let client = match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(connection);
                client
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(connection);
                client
            }
        };
        let timeout_ms = self.timeout.as_millis().max(1);
        client.batch_execute(&format!("SET statement_timeout = {timeout_ms}")).await?;
        Ok(client)
    }
}

/// TLS by rustls.
#[derive(Clone)]
struct Tls(TlsConnector);

struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

struct Secured<S>(Stream<S>);

type Handshaking<S> = Pin<Box<dyn Future<Output = std::io::Result<Secured<S>>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Secured<S>;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Self::Error> {
        let name = ServerName::try_from(domain)?.to_owned();
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Secured<S>;
    type Error = std::io::Error;
    type Future = Handshaking<S>;

    fn connect(self, stream: S) -> Handshaking<S> {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Secured) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secured<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
