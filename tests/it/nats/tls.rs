//! Connections over TLS, and what a server that offers none is told.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Output},
    sync::mpsc,
    thread,
    time::Duration,
};

use tenure::{
    lease::Revision,
    store::nats::{NatsOpenError, Options, Tls},
};

use crate::nats::harness::{fresh, open_with, options, overwrite};

use crate::support::{
    nats_server::{Server, Sync},
    tls::Certificates,
};

#[tokio::test]
async fn a_server_and_a_client_prove_who_they_are() {
    let certificates = Certificates::make();
    let path = |name: &str| certificates.path(name);
    let tls = format!(
        "tls {{\n cert_file: {:?}\n key_file: {:?}\n ca_file: {:?}\n verify: true\n}}",
        path("server.pem"),
        path("server.key"),
        path("ca.pem"),
    );
    let server = Server::start_with(Sync::Default, &tls);
    let proven = Tls {
        ca: Some(path("ca.pem")),
        cert: Some(path("client.pem")),
        key: Some(path("client.key")),
        required: true,
        accept_plaintext: false,
    };
    let with = |tls: Tls| open_with(Options { tls, ..options(&server.url()) }, fresh(3), None);
    let store = with(proven.clone()).await.unwrap();
    overwrite(&store, "k", Revision::ABSENT, 1..=3).await;
    let nobody = Tls { cert: None, key: None, ..proven.clone() };
    assert!(matches!(with(nobody).await, Err(NatsOpenError::Connect { .. })));
    let stranger = Tls { ca: Some(path("stranger.pem")), ..proven.clone() };
    assert!(matches!(with(stranger).await, Err(NatsOpenError::Connect { .. })));
    // A server without TLS is not talked to where it is required.
    let plain = Server::start();
    let required = Options { tls: proven, ..options(&plain.url()) };
    assert!(matches!(
        open_with(required, fresh(3), None).await,
        Err(NatsOpenError::Connect { .. })
    ));
}

const INFO: &[u8] = b"INFO {\"server_id\":\"X\",\"server_name\":\"x\",\"version\":\"2.12.0\",\"proto\":1,\
    \"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"jetstream\":true,\
    \"auth_required\":true}\r\n";
const USER: &str = "alice";
const PASSWORD: &str = "hunter2";

/// Greets as a server does that offers no TLS, and tells what each client says before it is silent.
fn open_server() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let _ = socket.set_read_timeout(Some(Duration::from_millis(500)));
            let (mut said, mut part) = (Vec::new(), [0; 4096]);
            let _ = socket.write_all(INFO);
            while let Ok(length @ 1..) = socket.read(&mut part) {
                said.extend_from_slice(&part[..length]);
            }
            let _ = told.send(String::from_utf8_lossy(&said).into_owned());
        }
    });
    (address, heard)
}

fn heard(heard: &mpsc::Receiver<String>) -> String {
    let mut all = heard.recv_timeout(Duration::from_secs(15)).expect("a connection");
    while let Ok(more) = heard.recv_timeout(Duration::from_millis(700)) {
        all += &more;
    }
    all
}

#[tokio::test]
async fn a_server_that_offers_no_tls_hears_no_password_where_tls_is_asked_for() {
    let certificates = Certificates::make();
    let path = |name: &str| Some(certificates.path(name));
    let (address, told) = open_server();
    let ca = Tls { ca: path("ca.pem"), ..Tls::default() };
    let own = Tls { cert: path("client.pem"), key: path("client.key"), ..Tls::default() };
    let required = Tls { required: true, ..Tls::default() };
    let none = Tls::default();
    let cases = [
        ("nats", ca, false),
        ("nats", own, false),
        ("nats", required, false),
        ("tls", none.clone(), false),
    ];
    // Without TLS, this machine may hear it: the server would have told.
    for (scheme, tls, hears) in cases.into_iter().chain([("nats", none, true)]) {
        let with = Options {
            user: Some(USER.to_owned()),
            password: Some(PASSWORD.to_owned()),
            tls: tls.clone(),
            ..options(&format!("{scheme}://{address}"))
        };
        let opened = open_with(with, fresh(3), None).await;
        assert!(matches!(opened, Err(NatsOpenError::Connect { .. })), "{tls:?}");
        let heard = heard(&told);
        assert_eq!(heard.contains(USER) && heard.contains(PASSWORD), hears, "{tls:?}: {heard}");
        assert!(hears || !heard.contains("CONNECT"), "{tls:?}: {heard}");
    }
}

#[tokio::test]
async fn credentials_go_to_no_other_machine_in_plain_text() {
    let far = Options { token: Some(PASSWORD.to_owned()), ..options("nats://192.0.2.1:4222") };
    let opened = open_with(far, fresh(3), None).await.err();
    let opened = opened.expect("refused");
    assert!(matches!(opened, NatsOpenError::Setting { setting: "store.nats.url", .. }), "{opened}");
}

fn serve(sets: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["serve", "--store", "nats", "--listen", "127.0.0.1:0", "--set", "node.witness="]);
    for set in sets {
        command.args(["--set", set]);
    }
    command.env("TENURE__STORE__NATS__PASSWORD", PASSWORD).output().expect("it runs")
}

#[test]
fn a_coordinator_tells_an_open_server_nothing_and_refuses_to_tell_another_machine() {
    let certificates = Certificates::make();
    let (address, told) = open_server();
    let user = format!("store.nats.user={USER}");
    let near = format!("store.nats.url=nats://{address}");
    let ca = format!("store.nats.tls_ca={}", certificates.path("ca.pem").display());
    let ended = serve(&[near, user.clone(), ca]);
    assert!(!ended.status.success(), "{ended:?}");
    let heard = heard(&told);
    assert!(!heard.contains(USER) && !heard.contains(PASSWORD), "{heard}");
    for host in ["192.0.2.1", "localhost.evil.example"] {
        let ended = serve(&[format!("store.nats.url=nats://{host}:4222"), user.clone()]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(78), "{said}");
        let names = ["store.nats.url", "tls://", "store.nats.accept_plaintext = true"];
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
}
