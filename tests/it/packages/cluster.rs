//! The files for three coordinators with TLS, an access file and three NATS servers: they work together as they are shipped, with
//! other addresses and directories.

use std::{fs, net::SocketAddr, process::Command};

use serde_json::json;

use crate::{
    access::cast::{all_of, principal, write},
    packages::repository,
    support::{
        clock::{ms, within},
        nats_server,
        node::Node,
        ports::free_port,
        process::Process,
        tls::Certificates,
    },
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The machines: addresses of the loopback interface.
fn host(at: usize) -> String {
    format!("127.0.0.{}", at + 1)
}

/// A shipped file, with the directories and ports of this test.
fn shipped(name: &str, certificates: &Certificates, [client, route]: [u16; 2]) -> String {
    let dir = certificates.dir().display().to_string();
    let mut file = repository(&format!("deploy/cluster/{name}"));
    for (at, name) in NAMES.into_iter().enumerate() {
        file = file.replace(&format!("nats-{name}.example"), &host(at));
    }
    let moved = ["/etc/tenure/tls", "/etc/nats/tls", "/etc/tenure", "/var/lib/tenure"];
    let file = moved.into_iter().fold(file, |file, path| file.replace(path, &dir));
    file.replace("4222", &client.to_string()).replace("6222", &route.to_string())
}

/// Starts the NATS servers.
fn servers(certificates: &Certificates, ports: [u16; 2]) -> Vec<Process> {
    let file = shipped("nats.conf", certificates, ports);
    let start = |(at, name): (usize, &str)| {
        let dir = certificates.path(&format!("nats-{name}"));
        let own =
            file.replace("0.0.0.0", &host(at)).replace("/var/lib/nats", &dir.display().to_string());
        let path = certificates.path(&format!("nats-{name}.conf"));
        fs::write(&path, own).expect("written");
        let mut command = Command::new(nats_server::program());
        command.arg("-c").arg(&path).env("NATS_NAME", format!("nats-{name}"));
        Process::start(name, command.env("TENURE_NATS_PASSWORD", "of-the-coordinators"))
    };
    NAMES.into_iter().enumerate().map(start).collect()
}

fn coordinator(certificates: &Certificates, (at, name): (usize, &str)) -> Node {
    let listen: SocketAddr = format!("{}:{}", host(at), free_port()).parse().expect("an address");
    let witness = certificates.path(&format!("witness-{name}.json")).display().to_string();
    let url = format!("https://{listen}");
    let environment =
        [("TENURE__NODE__ADVERTISE_URL", url.as_str()), ("TENURE__NODE__WITNESS", &witness)];
    let node = Node::at(listen, name, &[], &environment);
    let node = node.configured(&certificates.path("tenure.toml"));
    node.trusted_by(&certificates.path("ca.pem")).with_token("root")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_coordinators_with_tls_access_and_nats_work_as_they_are_shipped() {
    let certificates = Certificates::make();
    let hosts: Vec<String> = (0..NAMES.len()).map(|at| format!("IP:{}", host(at))).collect();
    certificates.issue("server", &hosts.join(","));
    let ports = [free_port(), free_port()];
    fs::write(certificates.path("nats-password"), "of-the-coordinators\n").expect("written");
    let file = shipped("tenure.toml", &certificates, ports);
    fs::write(certificates.path("tenure.toml"), file).expect("written");
    write(&certificates.path("access.toml"), &[principal("root", &all_of(""))]);
    let nats = servers(&certificates, ports);

    let of = |named| coordinator(&certificates, named);
    let mut nodes: Vec<Node> = NAMES.into_iter().enumerate().map(of).collect();
    for node in &mut nodes {
        node.start().await;
    }
    let three = async || {
        let known = nodes[2].get("/v1/nodes").await;
        let alive = known["nodes"]
            .as_array()
            .map(|nodes| nodes.iter().filter(|node| node["state"] == "alive").count());
        alive == Some(NAMES.len())
    };
    assert!(within(ms(10_000), three).await, "{}", nodes[2].get("/v1/nodes").await);

    let body = json!({ "key": "shards/1", "owner": "w", "ttl_ms": 30_000 });
    let (status, grant) = nodes[0].post("/v1/acquire", &body).await;
    assert_eq!(status, 200, "{grant}");
    let stranger = nodes[1].remote().with_token("");
    assert_eq!(stranger.post("/v1/acquire", &body).await.0, 401);
    // Any coordinator answers, also for the leases of a dead one, and with one NATS server less.
    let proof = json!({ "key": "shards/1", "lease_id": grant["lease_id"] });
    assert_eq!(nodes[1].post("/v1/heartbeat", &proof).await.0, 200);
    nodes[0].kill();
    let mut nats = nats.into_iter();
    nats.next().expect("three").kill();
    let adopted = within(ms(20_000), async || {
        let (status, alive) = nodes[1].try_post("/v1/heartbeat", &proof).await;
        status == 200 && alive["token"] == grant["token"]
    });
    assert!(adopted.await, "{}", nodes[1].said());
}
