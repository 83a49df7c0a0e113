//! A DynamoDB endpoint for tests, in this process, on a thread of its own: it does not wait for what
//! the test does.

use std::net::SocketAddr;

use dynoxide::Database;
use tokio::sync::oneshot;

/// Stopped when it is dropped.
pub struct Endpoint {
    /// Where it listens.
    pub addr: SocketAddr,
    /// What it keeps: a way to it behind the back of those who use the address.
    #[allow(dead_code, reason = "not every test goes behind the backs")]
    pub database: Database,
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An empty account, in memory.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a mode of sockets");
        let addr = listener.local_addr().expect("an address");
        let database = Database::memory().expect("a database");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = database.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                // Not until its last connection is done: a node that was killed may keep one open.
                tokio::select! {
                    () = dynoxide::server::serve_on(listener, served) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { addr, database, _stop: stop }
    }
}
