//! A DynamoDB endpoint in this process, on a port of 127.0.0.1 that other processes reach too.
//!
//! Everything is gone when it is dropped.

#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::{net::SocketAddr, thread};

use tokio::sync::oneshot;

/// A running endpoint.
pub struct Endpoint {
    addr: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Endpoint {
    /// Starts one, empty, on a port that is free.
    pub fn start() -> Self {
        Self::start_with(dynoxide::Database::memory().expect("a database in memory"))
    }

    /// Starts one on a database.
    pub fn start_with(database: dynoxide::Database) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("its address");
        listener.set_nonblocking(true).expect("not blocking");
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = dynoxide::server::serve_on(listener, database) => {}
                    _ = stopped => {}
                }
            });
        };
        thread::Builder::new().name("endpoint".to_owned()).spawn(serve).expect("a thread");
        Self { addr, _stop: stop }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its address for `store.dynamodb.endpoint`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}
