//! The HTTP server. Its workers are also the arbiters of the lease actors.

use std::{
    future::ready,
    io::ErrorKind,
    net::TcpListener,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix_http::{HttpService, error::DispatchError};
use actix_service::{IntoServiceFactory as _, ServiceFactoryExt as _, fn_service, map_config};
use actix_web::{
    Error,
    dev::{AppConfig, Extensions, Server as Running, ServerHandle},
    rt::net::TcpStream,
    web,
};

use super::{
    addresses::Addresses,
    admin, any,
    budget::Budget,
    cloud_event::{self, Setting},
    door::Door,
    events,
    forward::Forwarder,
    heartbeats, leases,
    line::Line,
    pages,
    places::{Places, RESERVED, Seat},
    pools, releases,
    replay::Replays,
    service, sessions,
};
use crate::{
    lease::Nonce,
    manager::{Arbiters, Manager, claim_this_thread},
    store::LeaseStore,
    telemetry::{ConnectionLines, Recorder},
};

/// The log targets under which the library reports, at `ERROR`, connections that do not speak HTTP.
pub const CONNECTION_LINES: ConnectionLines =
    ConnectionLines { broken: "actix_http::h1::dispatcher", more: "actix_http::h1::decoder" };
/// How long a client may take to send the head of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The state that the handlers share.
pub struct App {
    /// The coordinator.
    pub manager: Arc<Manager>,
    /// Forwards requests to other nodes.
    pub forwarder: Forwarder,
    /// Renders metrics.
    pub recorder: Recorder,
    /// Sets the gauges that are only computed for a scrape.
    pub before_scrape: Box<dyn Fn() + Send + Sync>,
    /// The origin that answers and events name.
    pub source: Arc<Source>,
    /// The kind of store.
    pub store_kind: &'static str,
    /// An event stream sends a comment after it was silent for this long.
    pub keep_alive: Duration,
    /// Reads the history for subscribers.
    pub replays: Replays,
    /// Decides which requests reach a handler.
    pub door: Door,
    /// The bytes that bodies may take.
    pub bodies: Arc<Budget>,
}

impl App {
    /// The URL of a lease's home node: this node's own where no other is the home node. `None` for a node whose record
    /// has not been read yet.
    pub fn url_of(&self, node: Option<Nonce>) -> Option<String> {
        match node.filter(|node| !self.manager.is_own(*node)) {
            None => Some(self.source.node.clone()),
            Some(node) => self.manager.home(node).url.map(String::from),
        }
    }
}

/// The origin of answers and events.
pub struct Source {
    /// The URL at which others reach this coordinator.
    pub node: String,
    /// The store whose history this is.
    pub store: Arc<dyn LeaseStore>,
}

impl Source {
    /// The beginning of the store's identity, for cursors. A store that went backwards gets another identity when its
    /// epoch is raised, for all processes that go on with it.
    pub fn store_tag(&self) -> String {
        format!("{:08x}", self.identity().0 >> 96)
    }

    /// The store's identity now.
    pub fn identity(&self) -> Nonce {
        self.store.meta().identity
    }
}

/// The options of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The number of worker threads: as many as there are arbiters.
    pub workers: usize,
    /// The most connections at a time, per worker.
    pub max_connections: usize,
    /// The most connections of one address; 0: no bound.
    pub per_address: usize,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long a stop waits for requests in progress.
    pub shutdown_timeout: Duration,
}

/// A running server.
pub struct Server {
    running: Running,
}

impl Server {
    /// Serves on a bound listener. Each worker registers its arbiter.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn start(
        app: App,
        listener: TcpListener,
        arbiters: Arc<Arbiters>,
        options: &ServerOptions,
    ) -> std::io::Result<Self> {
        let source = app.source.clone();
        let manager = Arc::downgrade(&app.manager);
        app.manager.render_with(move |change| {
            let setting = manager.upgrade().map(|manager| Setting::of(&manager, change));
            cloud_event::render(&source, &setting.unwrap_or_else(Setting::unknown), change)
        });
        let app = web::Data::new(app);
        let workers = Arc::new(AtomicUsize::new(0));
        let door = app.door.clone();
        let ServerOptions { max_connections, keep_alive, .. } = *options;
        let server = actix_server::Server::build()
            .workers(options.workers)
            // `places.rs` decides which connections beyond the places are served.
            .max_concurrent_connections(max_connections + RESERVED)
            .shutdown_timeout(options.shutdown_timeout.as_secs().max(1))
            .disable_signals();
        let stopping = server.graceful_shutdown_signal();
        let addresses = Addresses::new(options.per_address);
        // This runs once for each worker, on the worker's thread.
        let serve = move || {
            let index = workers.fetch_add(1, Ordering::Relaxed);
            if index < arbiters.count() {
                claim_this_thread(index);
                arbiters.set(index, actix::Arbiter::current());
            }
            let routes = actix_web::App::new().app_data(app.clone()).configure(routes);
            let routes = routes.wrap(door.clone()).into_factory();
            let stopping = stopping.clone();
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                .keep_alive(keep_alive)
                .client_request_timeout(REQUEST_TIMEOUT)
                .client_disconnect_timeout(Duration::from_secs(1))
                // A caller that closed its side of the connection is gone, and must not be granted anything.
                .h1_allow_half_closed(false)
                .on_connect_ext(|line: &Line, data: &mut Extensions| {
                    data.insert::<Rc<Seat>>(line.seat().clone());
                })
                .h1(map_config(routes.map_err(|error: Error| error.error_response()), |()| {
                    AppConfig::default()
                }));
            let places = Places::new(max_connections);
            let addresses = addresses.clone();
            fn_service(move |stream: TcpStream| {
                let peer = stream.peer_addr().ok();
                let Some(counted) = addresses.count(peer.map(|peer| peer.ip())) else {
                    return ready(Err(DispatchError::Io(ErrorKind::ConnectionRefused.into())));
                };
                // If this fails, answers are only slower.
                let _ = stream.set_nodelay(true);
                ready(Ok((Line::new(stream, &places, counted), peer)))
            })
            .and_then(http)
        };
        Ok(Self { running: server.listen("http", listener, serve)?.run() })
    }

    /// A handle that stops the server from elsewhere.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.running.handle()
    }

    /// Runs the server until it is stopped.
    ///
    /// # Errors
    /// When a worker cannot be started.
    pub async fn run(self) -> std::io::Result<()> {
        self.running.await
    }
}

fn routes(config: &mut web::ServiceConfig) {
    macro_rules! resources {
        (@more $resource:expr, get $handler:path) => {
            $resource.route(web::head().to($handler))
        };
        (@more $resource:expr, post $handler:path) => {
            $resource
        };
        (@allow get) => { "GET, HEAD" };
        (@allow post) => { "POST" };
        ($($path:literal $method:ident $handler:path),* $(,)?) => {
            config$(.service(
                resources!(@more web::resource($path).route(web::$method().to($handler)), $method $handler)
                    .default_service(web::to(|request| {
                        service::wrong_method(request, resources!(@allow $method))
                    })),
            ))*
        };
    }
    resources! {
        "/v1/heartbeat" post heartbeats::heartbeat,
        "/v1/heartbeats" post heartbeats::heartbeats,
        "/v1/acquire" post leases::acquire,
        "/v1/acquire-any" post any::acquire_any,
        "/v1/release" post releases::release,
        "/v1/releases" post releases::releases,
        "/v1/transfer" post releases::transfer,
        "/v1/check" post leases::check,
        "/v1/leases" get leases::list,
        "/v1/leases/{key:.*}" get leases::get,
        "/v1/events" get events::events,
        "/v1/admin/revoke" post admin::revoke,
        "/v1/admin/pin" post admin::pin,
        "/v1/admin/unpin" post admin::unpin,
        "/v1/admin/drain" post admin::drain,
        "/v1/admin/fence-skip" post admin::fence_skip,
        "/v1/admin/forget" post admin::forget,
        "/v1/sessions/{id}/heartbeat" post sessions::heartbeat,
        "/v1/sessions/{id}/drain" post sessions::drain,
        "/v1/pools" get pools::list,
        "/v1/pools/{pool}" get pools::get,
        "/v1/info" get service::info,
        "/v1/nodes" get service::nodes,
        "/livez" get service::livez,
        "/readyz" get service::readyz,
        "/metrics" get service::metrics,
    }
    .service(
        web::resource("/v1/sessions")
            .route(web::post().to(sessions::open))
            .route(web::get().to(sessions::list))
            .route(web::head().to(sessions::list))
            .default_service(web::to(|request| service::wrong_method(request, "GET, HEAD, POST"))),
    )
    .service(
        web::resource("/v1/sessions/{id}")
            .route(web::get().to(sessions::get))
            .route(web::head().to(sessions::get))
            .route(web::delete().to(sessions::close))
            .default_service(web::to(|request| {
                service::wrong_method(request, "GET, HEAD, DELETE")
            })),
    )
    .configure(pages::configure)
    .default_service(web::to(service::not_found));
    #[cfg(feature = "testing")]
    config
        .route("/v1/testing/panic", web::post().to(super::testing::inject_panic))
        .route("/v1/testing/handover", web::post().to(super::testing::ask_handover));
}
