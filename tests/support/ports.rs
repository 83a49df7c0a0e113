//! Ports for servers that tests start, stop and start again on the same port.
//!
//! A port that the system chose is free again as soon as it is looked at: another test, or the end of
//! any connection, takes it before the server does, or while the server is down. So these are below
//! the range that the system chooses from, and a name in the abstract namespace keeps the port for
//! this process until it ends.

use std::{
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::Mutex,
};

/// Below the range that Linux takes for connections and for port 0 (`ip_local_port_range`).
const FIRST: u16 = 18_000;
const COUNT: u16 = 14_000;

/// The names that keep this process's ports.
static KEPT: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port of loopback that no other test is given while this process lives.
///
/// # Panics
/// When all are taken.
pub fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(37) % u32::from(COUNT);
    let start = u16::try_from(start).expect("it is below COUNT");
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for step in 0..COUNT {
        let port = FIRST + (start + step) % COUNT;
        let name = SocketAddr::from_abstract_name(format!("tenure-test-port-{port}"));
        let Ok(claim) = UnixListener::bind_addr(&name.expect("a short name")) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            kept.push(claim);
            return port;
        }
    }
    panic!("no port of loopback is free");
}
