//! A complete coordinator, built from its settings: store, manager, server. `serve` and `demo` run it.

use std::{
    collections::BTreeSet,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_web::dev::ServerHandle;
use anyhow::Context as _;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustls::ClientConfig;

use super::descriptors;
use crate::{
    clock::SystemClock,
    http::{App, Budget, Door, Forwarder, Names, Replays, Seal, Server, ServerOptions, Source},
    lease::Nonce,
    manager::{Arbiters, Manager, engine::Engine},
    settings::Settings,
    telemetry::Recorder,
    tls::{self, Roots, TlsError},
};

/// How often observed values are moved into histogram buckets.
const UPKEEP: Duration = Duration::from_secs(5);
/// Number of connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// The longest silence on an event stream. A comment is sent before it ends.
const MAX_SILENCE: Duration = Duration::from_secs(5);

pub(crate) struct Coordinator {
    /// The address on which it listens.
    pub(crate) bound: SocketAddr,
    engine: Engine,
    server: ServerHandle,
    ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Coordinator {
    /// Opens the store, binds the address, and serves in the background. Must be called inside an actix system.
    pub(crate) async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let recorder = Recorder::install()?;
        let listener = listen(settings.server.listen)
            .with_context(|| format!("cannot listen on {}", settings.server.listen))?;
        let bound = listener.local_addr()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.server.workers.resolve(cores);
        let arbiters = Arc::new(Arbiters::new(workers));
        let url = settings.advertise_url(bound);
        let engine = Engine::start(settings, url, Some(bound), arbiters.clone()).await?;
        let manager = engine.manager.clone();
        let url = settings.advertise_url(bound);
        let secret = &engine.store.store.meta().secret;
        let seal = Arc::new(Seal::new(secret, &url, Arc::new(SystemClock::new())));
        let most = usize::try_from(settings.limits.body_bytes.0).unwrap_or(usize::MAX);
        let bodies = Budget::new(most);
        let app = App {
            manager: manager.clone(),
            forwarder: Forwarder::new(seal.clone(), tls_to_nodes(settings)?)
                .context("cannot create the HTTP client for calls to other nodes")?,
            recorder: recorder.clone(),
            before_scrape: gauges(&engine),
            source: Arc::new(Source { node: url.clone(), store: engine.store.store.clone() }),
            store_kind: settings.store.kind.as_str(),
            keep_alive: settings.events.heartbeat_interval.min(MAX_SILENCE).mul_f64(0.8),
            replays: Replays::of(&*engine.store.store),
            door: Door::new(Names::new(&settings.server.hosts, &url), seal),
            bodies,
        };
        let wanted = settings.server.max_connections;
        let options = ServerOptions {
            workers,
            max_connections: descriptors::connections(wanted, workers, descriptors::raise()),
            per_address: settings.limits.connections_per_address,
            keep_alive: settings.server.keep_alive,
            shutdown_timeout: settings.server.shutdown_timeout,
        };
        let server = Server::start(app, listener, arbiters, &options)?;
        let handle = server.handle();
        let ended = actix::spawn(server.run());
        let kept = manager;
        actix::spawn(async move {
            let (mut shared, mut odd) = (BTreeSet::new(), BTreeSet::new());
            loop {
                tokio::time::sleep(UPKEEP).await;
                recorder.upkeep();
                kept.settle_ownership_log();
                shared = warn_of_shared_addresses(&kept, &shared);
                odd = warn_of_other_rules(&kept, &odd);
            }
        });
        Ok(Self { bound, engine, server: handle, ended })
    }

    /// Resolves when the server ends on its own. It does so only if it cannot continue.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<()> {
        Ok((&mut self.ended).await??)
    }

    /// Applies other policies, and the plugins that they name.
    ///
    /// # Errors
    /// A plugin cannot be created. Nothing has changed then.
    pub(crate) fn set_policies(&self, settings: &Settings) -> anyhow::Result<()> {
        self.engine.set_policies(settings)
    }

    /// Counts a reload of the settings.
    pub(crate) fn count_reload(&self, applied: bool) {
        self.engine.metrics.reloaded(applied);
    }

    /// Accepts no more work, finishes what is in flight, syncs, and closes the store.
    pub(crate) async fn stop(self) {
        self.engine.leave().await;
        self.server.stop(true).await;
        self.engine.stop().await;
    }
}

/// How nodes with `https` addresses are authenticated.
fn tls_to_nodes(settings: &Settings) -> anyhow::Result<ClientConfig> {
    let ca = &settings.node.ca;
    if !settings.store.kind.is_shared() && ca.as_os_str().is_empty() {
        return Ok(tls::none());
    }
    match tls::client(Roots::of(ca)) {
        // Most nodes need no CA certificates. Without them, only calls to nodes with `https` addresses fail.
        Err(error @ TlsError::System(_)) => {
            tracing::info!(%error, "calls to nodes with https addresses will fail; set node.ca");
            Ok(tls::none())
        }
        made => made.context("node.ca"),
    }
}

/// Warns once about each address that several living nodes claim.
fn warn_of_shared_addresses(manager: &Manager, said: &BTreeSet<Box<str>>) -> BTreeSet<Box<str>> {
    let shared = manager.shared_addresses();
    for url in shared.difference(said) {
        tracing::warn!(
            %url,
            "several living nodes advertise this address, so calls for one reach the other; \
             set node.advertise_url of each node to its own address"
        );
    }
    shared
}

/// Warns once about each living node whose policies or plugins differ from this node's.
fn warn_of_other_rules(manager: &Manager, said: &BTreeSet<Nonce>) -> BTreeSet<Nonce> {
    let odd = manager.nodes_with_other_rules();
    for node in odd.difference(said) {
        tracing::warn!(
            %node,
            "another node has other policies or plugins: give all nodes the same, and reload them"
        );
    }
    odd
}

/// Binds with an accept queue for bursts of connections. The queue of std has only 128 places.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    net::sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The gauges that are updated before each scrape.
fn gauges(engine: &Engine) -> Box<dyn Fn() + Send + Sync> {
    let (manager, metrics) = (engine.manager.clone(), engine.metrics.clone());
    let of_store = engine.store.gauges(metrics.clone());
    Box::new(move || {
        of_store();
        let places = u32::try_from(manager.waiting_places()).unwrap_or(u32::MAX);
        metrics.waiting_places.set(f64::from(places));
        let subscribers = u32::try_from(manager.subscribers()).unwrap_or(u32::MAX);
        metrics.subscribers.set(f64::from(subscribers));
    })
}
