//! A complete coordinator, built from its settings: store, manager, server. `serve` and `demo` run it.

use std::{
    collections::BTreeSet,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use actix_web::dev::ServerHandle;
use anyhow::Context as _;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustls::ClientConfig;

use super::{
    access_file::AccessFile,
    backup_socket::BackupSocket,
    certificate::Certificate,
    descriptors, expiry,
    follower::Follower,
    socket::{self, SocketFile},
    traces,
};
use crate::{
    access::Doors,
    clock::SystemClock,
    files::apart,
    http::{
        App, Budget, Cookies, Door, Forwarder, Gatekeeper, Listeners, LongestLag, Names, Replays,
        Seal, Server, ServerOptions, Shedding, Source, StreamBounds, Streams, Tls,
    },
    lease::Nonce,
    manager::{Arbiters, Manager, engine::Engine},
    settings::{Audit, Settings},
    store::LeaseStore,
    telemetry::{
        Metrics, Recorder,
        audit::{AuditError, AuditFiles, AuditLog},
        trace::Exporter,
    },
    tls::{self, Certificates, Roots, TlsError},
};

/// How often observed values are moved into histogram buckets.
const UPKEEP: Duration = Duration::from_secs(5);
/// How often the log says that the coordinator does not authenticate callers.
const OPEN_DOOR_WARNING: Duration = Duration::from_secs(3600);
/// Number of connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// The coordinator's user and group may connect to its Unix socket.
const SOCKET_MODE: u32 = 0o660;
/// How long the last lines of the audit log may take.
const LAST_LINES: Duration = Duration::from_secs(10);
/// The longest silence on an event stream. A comment is sent before it ends.
const MAX_SILENCE: Duration = Duration::from_secs(5);

pub(crate) struct Coordinator {
    /// The address on which it listens.
    pub(crate) bound: SocketAddr,
    engine: Engine,
    audit: Option<Arc<AuditLog>>,
    traces: Option<Exporter>,
    server: ServerHandle,
    /// Whether the port speaks TLS.
    has_tls: bool,
    /// They follow the access file and the files of the certificate.
    followers: Vec<Follower>,
    /// The file of the Unix socket, which is there until the end.
    socket: Option<SocketFile>,
    /// Where backups of an embedded store are written to.
    backups: Option<BackupSocket>,
    ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Coordinator {
    /// Opens the store, binds the address, and serves in the background: the principals of `file`, or everybody. Must
    /// be called inside an actix system.
    pub(crate) async fn start(
        settings: &Settings,
        file: Option<&AccessFile>,
    ) -> anyhow::Result<Self> {
        let access = file.map(|file| file.current().clone());
        let recorder = Recorder::install()?;
        let audit = open_audit(settings)?;
        let listener = listen(settings.server.listen)
            .with_context(|| format!("cannot listen on {}", settings.server.listen))?;
        let bound = listener.local_addr()?;
        let (unix, socket) = local(&settings.server.listen_uds)?.unzip();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.server.workers.resolve(cores);
        let arbiters = Arc::new(Arbiters::new(workers));
        let url = settings.advertise_url(bound);
        let engine = Engine::start(settings, url, Some(bound), arbiters.clone()).await?;
        let manager = engine.manager.clone();
        let mut followers = Vec::new();
        match file {
            Some(file) => followers.push(file.start(&manager)),
            None => manager.publish_access(None),
        }
        let doors = Doors {
            uids: socket.is_some(),
            certificates: !settings.server.tls_client_ca.as_os_str().is_empty(),
        };
        let followed = manager.follow_revocations(access.as_ref(), doors).await;
        followed.context("cannot read the revocation list")?;
        let url = settings.advertise_url(bound);
        let certificates = Arc::<Certificates>::default();
        let certificate = Certificate::open(settings, &url, &engine.metrics, &certificates)?;
        followers.extend(certificate.as_ref().map(Certificate::follow));
        expiry::start(settings, &certificates, &engine.metrics);
        let traces = traces::start(settings, settings.node_name(bound), &engine.metrics)?;
        let secret = &engine.store.store.meta().secret;
        let clock = Arc::new(SystemClock::new());
        let cookies = Arc::new(Cookies::new(secret, &url));
        let gatekeeper = Gatekeeper::new(
            access.clone(),
            cookies.clone(),
            clock.clone(),
            engine.metrics.clone(),
            settings.limits.rate_per_address,
        );
        let seal = Arc::new(Seal::new(secret, &url, clock, manager.clone()));
        let most = usize::try_from(settings.limits.body_bytes.0).unwrap_or(usize::MAX);
        let bodies = Budget::new(most);
        let limits = &settings.limits;
        let lag = Arc::<LongestLag>::default();
        let shedding =
            Shedding::new(manager.clone(), limits.shed_lag, limits.shed_writes, lag.clone());
        let bounds = StreamBounds {
            most: limits.streams,
            calls: limits.stream_calls,
            ping: settings.server.stream_ping,
        };
        let streams = Streams::new(bounds, engine.metrics.clone());
        let app = App {
            manager: manager.clone(),
            forwarder: Forwarder::new(seal.clone(), tls_to_nodes(settings)?)
                .context("cannot create the HTTP client for calls to other nodes")?,
            recorder: recorder.clone(),
            before_scrape: gauges(&engine, lag, streams.clone()),
            source: Arc::new(Source { node: url.clone(), store: engine.store.store.clone() }),
            store_kind: settings.store.kind.as_str(),
            keep_alive: settings.events.heartbeat_interval.min(MAX_SILENCE).mul_f64(0.8),
            replays: Replays::of(&*engine.store.store),
            door: Door::new(Names::new(&settings.server.hosts, &url), seal, gatekeeper)
                .shedding(shedding)
                .audited(audit.clone())
                .traced(traces.as_ref().map(Exporter::tracer)),
            open_door: settings.is_open_door(),
            access,
            certificates,
            cookies,
            bodies,
            streams: streams.clone(),
        };
        let wanted = settings.server.max_connections;
        let options = ServerOptions {
            workers,
            max_connections: descriptors::connections(wanted, workers, descriptors::raise()),
            per_address: settings.limits.connections_per_address,
            keep_alive: settings.server.keep_alive,
            shutdown_timeout: settings.server.shutdown_timeout,
        };
        let has_tls = certificate.is_some();
        let tls = certificate.map(|Certificate { served, metrics, .. }| {
            let clock = Arc::new(SystemClock::new());
            Tls { served, metrics, clock }
        });
        let listeners = Listeners { tcp: listener, tls, unix };
        let server = Server::start(app, listeners, arbiters, &options)?;
        let handle = server.handle();
        let ended = actix::spawn(server.run());
        let kept = manager;
        let open = settings.is_open_door();
        engine.metrics.open_door.set(f64::from(u8::from(open)));
        if open {
            actix::spawn(warn_of_open_door());
        }
        actix::spawn(async move {
            let [mut odd, mut other_access] = [BTreeSet::new(), BTreeSet::new()];
            let mut shared = BTreeSet::new();
            loop {
                tokio::time::sleep(UPKEEP).await;
                recorder.upkeep();
                kept.settle_ownership_log();
                shared = warn_of_shared_addresses(&kept, &shared);
                odd = warn_of_other_rules(&kept, &odd);
                other_access = warn_of_other_access(&kept, &other_access);
            }
        });
        let backups = backups(settings, &engine.store.store);
        Ok(Self {
            bound,
            engine,
            audit,
            traces,
            server: handle,
            has_tls,
            followers,
            socket,
            backups,
            ended,
        })
    }

    /// The scheme of the port's URL.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.has_tls { "https" } else { "http" }
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

    /// Has the access file and the files of the certificate read again. Does not wait for that.
    pub(crate) fn reload_files(&self) {
        self.followers.iter().for_each(Follower::reload);
    }

    /// What is counted and observed, such as which files are in force.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.engine.metrics
    }

    /// Accepts no more work, finishes what is in flight, syncs, and closes the store.
    pub(crate) async fn stop(self) {
        self.engine.leave().await;
        self.server.stop(true).await;
        drop(self.socket);
        drop(self.backups);
        self.engine.stop().await;
        if let Some(audit) = self.audit {
            let closed = apart(move || audit.close());
            if tokio::time::timeout(LAST_LINES, closed).await.is_err() {
                tracing::error!(
                    "the last lines of the audit log are lost: its file system does not answer"
                );
            }
        }
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
    }
}

/// Listens on the Unix socket, if there is to be one.
fn local(path: &Path) -> anyhow::Result<Option<(UnixListener, SocketFile)>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let listening = socket::listen(path, BACKLOG, SOCKET_MODE);
    let listening = listening
        .with_context(|| format!("cannot listen on {} (server.listen_uds)", path.display()))?;
    tracing::info!(path = %path.display(), "listening on a Unix socket");
    Ok(Some(listening))
}

/// Where backups of an embedded store are written to. Without it, a backup needs a stop of the coordinator.
fn backups(settings: &Settings, store: &Arc<dyn LeaseStore>) -> Option<BackupSocket> {
    if settings.store.kind.is_shared() {
        return None;
    }
    let dir = &settings.store.embedded.data_dir;
    let opened = BackupSocket::open(dir, settings.store.kind.as_str(), store.clone());
    let refused = |error| tracing::warn!(%error, "no backup can be made while this node serves");
    opened.map_err(refused).ok()
}

/// The audit log, if the settings name its file.
fn open_audit(settings: &Settings) -> Result<Option<Arc<AuditLog>>, AuditError> {
    let Audit { file, max_size, keep, required } = &settings.audit;
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let files = AuditFiles {
        path: file.clone(),
        max_size: max_size.0,
        keep: *keep,
        required: *required,
        heads: place_of_heads(settings),
    };
    AuditLog::open(&files, Arc::new(SystemClock::new())).map(Arc::new).map(Some)
}

/// The directory in which a coordinator remembers the last lines of its audit log: that of the embedded store, or that of the witness
/// file.
fn place_of_heads(settings: &Settings) -> Option<PathBuf> {
    if !settings.store.kind.is_shared() {
        return Some(settings.store.embedded.data_dir.clone());
    }
    let witness = &settings.node.witness;
    let dir = witness.parent().filter(|_| !witness.as_os_str().is_empty())?;
    Some(if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir.to_owned() })
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

/// Reminds of it for as long as the process runs.
async fn warn_of_open_door() {
    loop {
        tracing::warn!(
            "callers are not authenticated (server.accept_no_auth): whoever reaches the port owns every lease"
        );
        tokio::time::sleep(OPEN_DOOR_WARNING).await;
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

/// Warns once about each living node whose access file differs from this node's.
fn warn_of_other_access(manager: &Manager, said: &BTreeSet<Nonce>) -> BTreeSet<Nonce> {
    let odd = manager.nodes_with_other_access();
    for node in odd.difference(said) {
        tracing::warn!(%node, "another node has another access file: give all nodes the same");
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
fn gauges(
    engine: &Engine,
    lag: Arc<LongestLag>,
    streams: Arc<Streams>,
) -> Box<dyn Fn() + Send + Sync> {
    let (manager, metrics) = (engine.manager.clone(), engine.metrics.clone());
    let of_store = engine.store.gauges(metrics.clone());
    Box::new(move || {
        of_store();
        let places = u32::try_from(manager.waiting_places()).unwrap_or(u32::MAX);
        metrics.waiting_places.set(f64::from(places));
        let subscribers = u32::try_from(manager.subscribers()).unwrap_or(u32::MAX);
        metrics.subscribers.set(f64::from(subscribers));
        let open = u32::try_from(streams.count()).unwrap_or(u32::MAX);
        metrics.streams.set(f64::from(open));
        let writes = u32::try_from(manager.writes_waiting()).unwrap_or(u32::MAX);
        metrics.writes_waiting.set(f64::from(writes));
        metrics.http_lag.set(lag.take().as_secs_f64());
    })
}
