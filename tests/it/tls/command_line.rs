//! Commands by https, and past the proxies of the environment.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Output},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::support::{
    harness::Server,
    tls::{Certificates, Front},
};

const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

fn command(certificates: &Certificates, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).current_dir(certificates.dir());
    command.env_remove("TENURE_SERVER").env_remove("TENURE_CA").env_remove("TENURE_PROXY");
    command
}

fn run(certificates: &Certificates, arguments: &[&str]) -> Output {
    command(certificates, arguments).output().expect("the program runs")
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(output: &Output, expected: [&str; 2]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(expected.iter().all(|word| said.contains(word)), "{expected:?}: {said}");
}

#[test]
fn commands_and_their_programs_reach_a_coordinator_by_https() {
    let (server, certificates) = (Server::start(), Certificates::make());
    let url = Front::start(&certificates, "server", server.addr).url();
    let over = |arguments: &[&str]| {
        run(&certificates, &[&["--server", &url, "--ca", "ca.pem"], arguments].concat())
    };
    out(&over(&["acquire", "k", "--owner", "w", "--ttl", "60s"]));
    assert!(out(&over(&["ls"])).contains("w"));
    // A program under a lease asks the same server, wherever it stands.
    let program = format!("cd / && {} get job --output json", env!("CARGO_BIN_EXE_tenure"));
    let ran = out(&over(&["run", "--key", "job", "--owner", "agent", "--", "sh", "-c", &program]));
    assert!(ran.contains("\"agent\""), "{ran}");
    let mut by_environment = command(&certificates, &["get", "k", "--output", "json"]);
    by_environment.env("TENURE_SERVER", &url).env("TENURE_CA", certificates.path("ca.pem"));
    assert!(out(&by_environment.output().expect("it runs")).contains("\"w\""));
    // As the system's authority.
    let mut by_system = command(&certificates, &["--server", &url, "ls"]);
    by_system.env("SSL_CERT_FILE", certificates.path("ca.pem"));
    assert!(out(&by_system.output().expect("it runs")).contains("w"));
}

#[test]
fn who_cannot_prove_who_it_is_is_told_nothing_and_the_error_says_what_to_do() {
    let (server, certificates) = (Server::start(), Certificates::make());
    let right = Front::start(&certificates, "server", server.addr);
    let wrong = Front::start(&certificates, "elsewhere", server.addr);
    let ls = |url: &str, ca: &str| run(&certificates, &["--server", url, "--ca", ca, "ls"]);
    refused(&ls(&right.url(), "stranger.pem"), ["UnknownIssuer", "--ca"]);
    refused(&run(&certificates, &["--server", &right.url(), "ls"]), ["UnknownIssuer", "--ca"]);
    refused(&ls(&wrong.url(), "ca.pem"), ["elsewhere.example", "for other names"]);
    // Neither of the two falls back to the other.
    let plain = format!("http://{}", right.addr);
    refused(&ls(&plain, "ca.pem"), ["not HTTP", "https://"]);
    let secure = format!("https://{}", server.addr);
    refused(&ls(&secure, "ca.pem"), ["speaks no TLS", "http://"]);
    assert_eq!((right.heard(), wrong.heard()), (0, 0));
    for (ca, problem) in [("none.pem", "none.pem"), ("ca.key", "no certificate")] {
        let misnamed = ls(&right.url(), ca);
        let said = String::from_utf8_lossy(&misnamed.stderr);
        assert_eq!(misnamed.status.code(), Some(64), "{said}");
        assert!(said.contains(problem), "{said}");
    }
}

/// A proxy that answers everything with 418, and tells how each request began.
fn proxy() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 1024];
            let length = socket.read(&mut head).unwrap_or_default();
            let _ = told.send(String::from_utf8_lossy(&head[..length]).into_owned());
            let _ = socket.write_all(b"HTTP/1.1 418 x\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (url, heard)
}

#[test]
fn a_proxy_of_the_environment_sees_nothing_and_one_that_was_asked_for_does() {
    let (server, certificates) = (Server::start(), Certificates::make());
    let front = Front::start(&certificates, "server", server.addr).url();
    let (proxy, heard) = proxy();
    let plain = format!("http://{}", server.addr);
    for url in [&plain, &front] {
        let mut command = command(&certificates, &["--server", url, "--ca", "ca.pem", "ls"]);
        command.envs(PROXIES.map(|name| (name, &proxy))).env_remove("NO_PROXY");
        out(&command.output().expect("it runs"));
    }
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err(), "the proxy heard something");
    let by_proxy = |url: &str| {
        let arguments = ["--server", url, "--ca", "ca.pem", "--proxy", &proxy, "ls"];
        assert_eq!(run(&certificates, &arguments).status.code(), Some(69));
        heard.recv_timeout(Duration::from_secs(10)).expect("the proxy is asked")
    };
    assert!(by_proxy(&plain).starts_with(&format!("GET {plain}/v1/leases")));
    let tunnel = by_proxy(&front);
    assert!(tunnel.starts_with("CONNECT 127.0.0.1:"), "{tunnel}");
    assert!(!tunnel.contains("/v1/"), "it is told no more than the address: {tunnel}");
}
