//! The wire client against a scripted server.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::wire::{Connection, Target, WireError};

/// A server that answers the first request with `pieces`, each written by itself.
async fn scripted(pieces: &'static [&'static str]) -> (Target, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target { address: listener.local_addr().unwrap() };
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        request.truncate(length);
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        request
    });
    (target, served)
}

#[tokio::test]
async fn a_request_carries_its_length_and_an_answer_in_pieces_is_joined() {
    let (target, served) =
        scripted(&["HTTP/1.1 200 OK\r\ncontent-le", "ngth: 11\r\n\r\nhello", " world"]).await;
    let mut connection = Connection::open(&target).await.unwrap();
    let mut request = Vec::new();
    target.post("/v1/x").fill(&mut request, |body| body.extend_from_slice(b"{\"a\":1}"));
    let answer = connection.call(&request).await.unwrap();
    assert_eq!((answer.status, answer.text()), (200, "hello world"));
    assert!(connection.is_open());
    let sent = String::from_utf8(served.await.unwrap()).unwrap();
    assert!(sent.starts_with("POST /v1/x HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("content-length:       7\r\n\r\n{\"a\":1}"), "{sent}");
}

#[tokio::test]
async fn chunks_are_joined_wherever_they_are_cut() {
    let (target, _served) = scripted(&[
        "HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r",
        "\nhel",
        "lo\r\n6;x=y\r\n world\r\n0",
        "\r\n\r\n",
    ])
    .await;
    let mut connection = Connection::open(&target).await.unwrap();
    let answer = connection.call(&target.get("/livez")).await.unwrap();
    assert_eq!((answer.status, answer.text()), (503, "hello world"));
    assert!(!connection.is_open());
}

#[tokio::test]
async fn a_closed_connection_and_nonsense_are_errors() {
    let (target, _served) = scripted(&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"]).await;
    let mut connection = Connection::open(&target).await.unwrap();
    let error = connection.call(&target.get("/")).await.unwrap_err();
    assert!(matches!(error, WireError::Closed(_)), "{error}");

    let (target, _served) = scripted(&["SSH-2.0-nothing\r\n\r\n"]).await;
    let mut connection = Connection::open(&target).await.unwrap();
    let error = connection.call(&target.get("/")).await.unwrap_err();
    assert!(matches!(error, WireError::Malformed(_)), "{error}");
}

#[test]
fn only_loopback_targets_are_taken() {
    assert_eq!(Target::parse("http://127.0.0.1:7373/").unwrap().address.port(), 7373);
    assert_eq!(Target::parse("http://127.0.0.1").unwrap().address.port(), 80);
    assert!(Target::parse("http://[::1]:7373").unwrap().address.is_ipv6());
    for wrong in ["https://127.0.0.1:7373", "127.0.0.1:7373", "http://192.0.2.1:7373"] {
        assert!(Target::parse(wrong).is_err(), "{wrong}");
    }
}
