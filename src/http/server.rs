//! The HTTP server. Its workers are also the arbiters of the lease actors.

use std::{
    future::ready,
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
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
    app::App,
    door::{Addresses, Line, Places, RESERVED, Seat},
    events::render,
    routes::routes,
};
use crate::{
    manager::{Arbiters, Setting, claim_this_thread},
    telemetry::ConnectionLines,
};

/// The log targets under which the library reports, at `ERROR`, connections that do not speak HTTP.
pub const CONNECTION_LINES: ConnectionLines =
    ConnectionLines { broken: "actix_http::h1::dispatcher", more: "actix_http::h1::decoder" };
/// How long a client may take to send the head of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

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
            render(&source, &setting.unwrap_or_else(Setting::unknown), change)
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
            fn_service(move |stream| ready(accept(stream, &places, &addresses))).and_then(http)
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

/// The line of a new connection, unless its address has as many as it may.
fn accept(
    stream: TcpStream,
    places: &Rc<Places>,
    addresses: &Arc<Addresses>,
) -> Result<(Line, Option<SocketAddr>), DispatchError> {
    let peer = stream.peer_addr().ok();
    let Some(counted) = addresses.count(peer.map(|peer| peer.ip())) else {
        return Err(DispatchError::Io(ErrorKind::ConnectionRefused.into()));
    };
    // If this fails, answers are only slower.
    let _ = stream.set_nodelay(true);
    Ok((Line::new(stream, places, counted), peer))
}
