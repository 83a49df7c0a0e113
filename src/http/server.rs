//! The HTTP server. Its workers are also the arbiters of the lease actors.

use std::{
    cell::RefCell,
    future::{Ready, ready},
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix_http::{HttpService, Request, error::DispatchError};
use actix_server::GracefulShutdownSignal;
use actix_service::{
    IntoServiceFactory as _, Service as _, ServiceFactory as _, ServiceFactoryExt as _, fn_service,
    map_config,
};
use actix_web::{
    Error,
    dev::{AppConfig, Extensions, Server as Running, ServerHandle},
    rt::net::{TcpStream, UnixStream},
    web,
};
use futures_util::{
    FutureExt as _,
    future::{Either, LocalBoxFuture},
};

use super::{
    app::App,
    door::{Addresses, Line, Place, Places, RESERVED, Stream, Tls},
    events::render,
    routes::routes,
    stream::{Inside, Serve},
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

/// Where the server listens. All that is here is bound.
pub struct Listeners {
    pub tcp: TcpListener,
    /// The port speaks TLS, and nothing else.
    pub tls: Option<Tls>,
    pub unix: Option<UnixListener>,
}

pub struct Server {
    running: Running,
}

impl Server {
    /// Serves on bound listeners. Each worker registers its arbiter.
    ///
    /// # Errors
    /// When a listener cannot be used.
    pub fn start(
        app: App,
        listeners: Listeners,
        arbiters: Arc<Arbiters>,
        options: &ServerOptions,
    ) -> std::io::Result<Self> {
        render_events(&app);
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
        let Listeners { tcp, tls, unix } = listeners;
        let stops = stopping.clone();
        let http = move || {
            let inside = Rc::new(inside(app.clone()));
            let served = actix_web::App::new().app_data(app.clone()).app_data(inside);
            let routes = served.configure(routes).wrap(door.clone()).into_factory();
            let stopping = stops.clone();
            HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                .keep_alive(keep_alive)
                .client_request_timeout(REQUEST_TIMEOUT)
                .client_disconnect_timeout(Duration::from_secs(1))
                // A caller that closed its side of the connection is gone, and must not be granted anything.
                .h1_allow_half_closed(false)
                .on_connect_ext(|line: &Line, data: &mut Extensions| line.describe(data))
                .h1(map_config(routes.map_err(|error: Error| error.error_response()), |()| {
                    AppConfig::default()
                }))
        };
        let of_socket = http.clone();
        // Each of these runs once for each worker, on the worker's thread.
        let serve = move || {
            let index = workers.fetch_add(1, Ordering::Relaxed);
            if index < arbiters.count() {
                claim_this_thread(index);
                arbiters.set(index, actix::Arbiter::current());
            }
            let port = Port {
                places: places(max_connections),
                addresses: addresses.clone(),
                tls: tls.clone(),
                stopping: stopping.clone(),
            };
            fn_service(move |stream| port.accept(stream)).and_then(http())
        };
        let serve_socket = move || {
            let (places, uncounted) = (places(max_connections), Addresses::new(0));
            fn_service(move |stream| ready(accept_local(stream, &places, &uncounted)))
                .and_then(of_socket())
        };
        let server = server.listen("http", tcp, serve)?;
        let server = match unix {
            Some(unix) => server.listen_uds("socket", unix, serve_socket)?,
            None => server,
        };
        Ok(Self { running: server.run() })
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

/// Serves the calls of streams: by the same routes, behind the same door.
fn inside(app: web::Data<App>) -> Inside {
    Inside::new(move || {
        let routes = actix_web::App::new().app_data(app.clone()).configure(routes);
        let made = routes.wrap(app.door.clone()).into_factory().new_service(AppConfig::default());
        let made = async move {
            let service = made.await.ok()?;
            let serve: Rc<Serve> =
                Rc::new(move |request: Request| service.call(request).boxed_local());
            Some(serve)
        };
        made.boxed_local()
    })
}

/// Has changes rendered as the events that subscribers read.
fn render_events(app: &App) {
    let source = app.source.clone();
    let manager = Arc::downgrade(&app.manager);
    app.manager.render_with(move |change| {
        let setting = manager.upgrade().map(|manager| Setting::of(&manager, change));
        render(&source, &setting.unwrap_or_else(Setting::unknown), change)
    });
}

/// A connection that can be read from, and the address of its client.
type Accepted = Result<(Line, Option<SocketAddr>), DispatchError>;

/// The places of this worker, which all its listeners share.
fn places(most: usize) -> Rc<Places> {
    thread_local! {
        static PLACES: RefCell<Option<Rc<Places>>> = const { RefCell::new(None) };
    }
    PLACES.with_borrow_mut(|places| places.get_or_insert_with(|| Places::new(most)).clone())
}

/// What a worker needs to accept connections of the TCP port.
#[derive(Clone)]
struct Port {
    places: Rc<Places>,
    addresses: Arc<Addresses>,
    tls: Option<Tls>,
    stopping: GracefulShutdownSignal,
}

impl Port {
    /// The line of a new connection, unless its address has as many as it may. A TLS handshake comes first.
    fn accept(
        &self,
        stream: TcpStream,
    ) -> Either<Ready<Accepted>, LocalBoxFuture<'static, Accepted>> {
        let peer = stream.peer_addr().ok();
        let Some(counted) = self.addresses.count(peer.map(|peer| peer.ip())) else {
            let refused = DispatchError::Io(ErrorKind::ConnectionRefused.into());
            return Either::Left(ready(Err(refused)));
        };
        // If this fails, answers are only slower.
        let _ = stream.set_nodelay(true);
        let place = Place::take(&self.places, counted);
        let Some(tls) = &self.tls else {
            return Either::Left(ready(Ok((Line::new(Stream::Plain(stream), place), peer))));
        };
        let accepting = tls.clone().accept(stream, place, self.stopping.clone());
        let accepted = accepting.map(move |line| Ok((line.map_err(DispatchError::Io)?, peer)));
        Either::Right(accepted.boxed_local())
    }
}

/// The line of a new connection of the Unix socket. Its callers have no address.
fn accept_local(stream: UnixStream, places: &Rc<Places>, uncounted: &Arc<Addresses>) -> Accepted {
    let counted =
        uncounted.count(None).ok_or(DispatchError::Io(ErrorKind::ConnectionRefused.into()))?;
    Ok((Line::new(Stream::Local(stream), Place::take(places, counted)), None))
}
