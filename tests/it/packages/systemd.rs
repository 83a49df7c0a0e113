//! What `tenure serve` tells systemd, for which `Type=notify` of the unit waits.

use std::{os::unix::net::UnixDatagram, process::Command};

use rustix::process::Signal;

use crate::support::{
    clock::{PATIENCE, wait_for},
    process::Process,
};

/// The next message on the socket.
fn told(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).expect("a message in time");
    String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
}

#[test]
fn systemd_is_told_when_the_port_is_open_and_when_a_stop_begins() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path().join("data"));
    let process = Process::start("tenure", command.env("NOTIFY_SOCKET", &path));
    assert_eq!(told(&socket), "READY=1");
    wait_for("its address", || process.said().contains("listening on http://127.0.0.1:"));
    process.signal(Signal::TERM);
    assert_eq!(told(&socket), "STOPPING=1");
    assert_eq!(process.wait().status.code(), Some(0));
}
