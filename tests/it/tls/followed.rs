//! The files of a client are followed: a renewal on disk needs no restart of an agent.

use std::{fs, net::SocketAddr, time::Duration};

use tenure::client::{Client, Hold, Lease};

use crate::{
    access::cast::{all_of, principal, write},
    support::{clock::ms, node::Node, ports::free_port, tls::Certificates},
};

/// The URI of a client that shows a certificate.
const WORKER: &str = "URI:spiffe://prod/worker";

fn coordinator(certificates: &Certificates, ca: &str, more: &[String]) -> Node {
    let file = |file: &str| certificates.path(file).display().to_string();
    let sets = [
        format!("server.tls_cert={}", file("tls.pem")),
        format!("server.tls_key={}", file("tls.key")),
        format!("store.embedded.data_dir={}", file("data")),
    ];
    let sets: Vec<String> = sets.into_iter().chain(more.iter().cloned()).collect();
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
    Node::at(listen, "the coordinator", &sets, &[]).trusted_by(&certificates.path(ca))
}

fn hold(key: &str) -> Hold {
    Hold::key(key).owner("w").ttl(Duration::from_secs(3))
}

async fn lives(lease: &Lease, span: Duration) {
    let step = ms(100);
    for _ in 0..span.as_millis() / step.as_millis() {
        tokio::time::sleep(step).await;
        assert!(lease.valid(), "{:?}", lease.deadline());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_lives_through_the_renewal_of_the_authority_and_a_restart() {
    let certificates = Certificates::make();
    certificates.issue_for("renewed", "IP:127.0.0.1", "stranger", 3600);
    for (file, by) in
        [("tls.pem", "server.pem"), ("tls.key", "server.key"), ("trust.pem", "ca.pem")]
    {
        certificates.replace(file, by);
    }
    let both =
        ["ca.pem", "stranger.pem"].map(|file| fs::read(certificates.path(file)).expect("made"));
    fs::write(certificates.path("both.pem"), both.concat()).expect("written");
    let mut node = coordinator(&certificates, "both.pem", &[]);
    node.start().await;
    let client = Client::builder(&node.url).ca(certificates.path("trust.pem")).build();
    let client = client.expect("a client");
    let lease = client.hold(hold("k")).await.expect("a lease");
    // A file that is being written changes nothing.
    fs::write(certificates.path("trust.pem"), &both[0][..both[0].len() / 2]).expect("written");
    tokio::time::sleep(ms(1200)).await;
    client.lease("k").await.expect("the old content counts");
    certificates.replace("trust.pem", "both.pem");
    for (file, by) in [("tls.pem", "renewed.pem"), ("tls.key", "renewed.key")] {
        certificates.replace(file, by);
    }
    node.stop().await;
    node.start().await;
    lives(&lease, ms(4000)).await;
    // The former authority goes. Its successor alone counts.
    certificates.replace("trust.pem", "stranger.pem");
    node.stop().await;
    node.start().await;
    lives(&lease, ms(4000)).await;
    lease.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_file_that_cannot_be_read_to_its_end_delays_no_heartbeat() {
    let certificates = Certificates::make();
    for (file, by) in
        [("tls.pem", "server.pem"), ("tls.key", "server.key"), ("trust.pem", "ca.pem")]
    {
        certificates.replace(file, by);
    }
    let mut node = coordinator(&certificates, "ca.pem", &[]);
    node.start().await;
    let trust = certificates.path("trust.pem");
    let client = Client::builder(&node.url).ca(&trust).build().expect("a client");
    let lease = client.hold(hold("k")).await.expect("a lease");
    // Who reads a pipe without a writer waits without end, as on a file system that does not answer.
    fs::remove_file(&trust).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(&trust).status().expect("it runs");
    assert!(made.success());
    lives(&lease, ms(6000)).await;
    lease.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_after_the_end_of_its_former_certificate() {
    let certificates = Certificates::make();
    for (file, by) in [("tls.pem", "server.pem"), ("tls.key", "server.key")] {
        certificates.replace(file, by);
    }
    let access = certificates.path("access.toml");
    let cert = "cert = [\"spiffe://prod/worker\"]\nowner = \"*\"";
    let worker = format!("[[principal]]\nname = \"worker\"\n{cert}\nmay = [{}]\n", all_of(""));
    write(&access, &[worker, principal("root", &all_of(""))]);
    let more = [
        format!("server.tls_client_ca={}", certificates.path("ca.pem").display()),
        format!("auth.file={}", access.display()),
    ];
    let mut node = coordinator(&certificates, "ca.pem", &more);
    node.start().await;
    certificates.issue_for("mine", WORKER, "ca", 8);
    let [cert, key] = ["mine.pem", "mine.key"].map(|file| certificates.path(file));
    let client = Client::builder(&node.url).ca(certificates.path("ca.pem"));
    let client = client.client_certificate(cert, key).build().expect("a client");
    let lease = client.hold(hold("k")).await.expect("a lease");
    certificates.issue_for("next", WORKER, "ca", 60);
    // Half of a pair changes nothing.
    certificates.replace("mine.key", "next.key");
    lives(&lease, ms(1500)).await;
    certificates.replace("mine.pem", "next.pem");
    lives(&lease, ms(9000)).await;
    let view = client.lease("k").await.expect("it is known");
    assert_eq!(view.owner.as_deref(), Some("w"));
}
