//! Bytes that are no HTTP, and heads that say two things at once.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::harness::{Connection, Server, eventually};

const HEADS: u32 = 300;
const BROKEN: &str = "tenure_http_connections_broken_total";

async fn send(server: &Server, head: &[u8]) {
    let mut stream = TcpStream::connect(server.addr).await.expect("connected");
    stream.write_all(head).await.expect("sent");
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn what_is_no_http_is_counted_and_does_not_fill_the_log() {
    let server = Server::start();
    assert_eq!(server.metric(BROKEN).await as u32, 0);
    let before = server.said().len();
    for _ in 0..HEADS {
        send(&server, b"\x16\x03\x01 no HTTP\r\n\r\n").await;
    }
    eventually("all are counted", async || server.metric(BROKEN).await as u32 >= HEADS).await;
    let too_long = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &vec![b'x'; 300_000]].concat();
    let mut stream = TcpStream::connect(server.addr).await.expect("connected");
    let _ = stream.write_all(&too_long).await;
    eventually("it is counted", async || server.metric(BROKEN).await as u32 > HEADS).await;
    let said = server.said()[before..].to_owned();
    assert!(said.is_empty(), "{said}");
}

#[tokio::test]
async fn who_asks_for_them_reads_of_each() {
    let server = Server::with(&["telemetry.log=warn,actix_http=debug"]);
    send(&server, b"no HTTP\r\n\r\n").await;
    eventually("it is said", async || server.said().contains("stream error")).await;
    assert_eq!(server.metric(BROKEN).await as u32, 1);
}

/// A proxy that judges one of the names would be passed by with the other. The HTTP library refuses such a head before
/// any part of the coordinator sees it, so the answer has no problem document.
#[tokio::test]
async fn a_request_with_two_hosts_is_refused() {
    let server = Server::start();
    let (own, other) = ("localhost", "evil.example");
    for [first, second] in [[own, own], [own, other], [other, own]] {
        let headers = [("Host", first), ("Host", second)];
        let mut connection = Connection::open(server.addr).await;
        let refused = connection.call("GET", "/v1/leases", &headers, b"").await;
        assert_eq!((refused.status, refused.text().as_str()), (400, ""));
    }
    let mut connection = Connection::open(server.addr).await;
    connection.call("GET", "/v1/leases", &[("Host", own)], b"").await.ok();
}
