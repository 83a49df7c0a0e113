//! `tenure ready`, by which containers and scripts probe a coordinator.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{harness::Server, ports::free_port};

/// Runs the probe against this server.
pub async fn ready(server: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", server, "ready"]).args(arguments).env_remove("TENURE_TOKEN_FILE");
    let ran = tokio::task::spawn_blocking(move || command.output());
    ran.await.expect("no panic").expect("the program runs")
}

#[tokio::test]
async fn a_server_that_is_ready_passes_by_its_port_and_by_its_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let server = Server::with(&[&format!("server.listen_uds={}", socket.display())]);
    for address in [format!("http://{}", server.addr), format!("unix:{}", socket.display())] {
        let output = ready(&address, &["--output", "json"]).await;
        assert_eq!(output.status.code(), Some(0), "{address}: {output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["ready"], true, "{answer}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_or_is_silent_fails_within_the_timeout() {
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let output = ready(&nobody, &[]).await;
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    // It accepts connections, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let probe = ready(&address, &["--timeout", "300ms"]);
    let output = tokio::time::timeout(std::time::Duration::from_secs(20), probe).await;
    let output = output.expect("the probe ends long before other calls give up");
    assert_eq!(output.status.code(), Some(69), "{output:?}");
}
