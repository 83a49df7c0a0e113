//! What bounds a stream, and all of them together.

use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpSocket};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    clock::sleep_ms,
    harness::{Connection, Server, Talk, eventually, ms, soon, talk::UPGRADE},
};

#[tokio::test]
async fn calls_beyond_the_bound_are_refused_by_id_and_heartbeats_have_room() {
    let server = Server::with(&["limits.stream_calls=4"]);
    let held = server.acquire("k", "w1", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    let wait = |owner: u32| json!({ "key": "k", "owner": format!("w{owner}"), "ttl_ms": 60_000, "wait_ms": 60_000 });
    let mut waiting = Vec::new();
    for owner in 2..6 {
        waiting.push(talk.begin("acquire", &wait(owner)).await);
    }
    server.until_waiters("k", 4).await;
    let refused = talk.call("acquire", &wait(6)).await;
    assert_eq!((&refused["status"], &refused["body"]["code"]), (&json!(429), &json!("busy")));
    assert!(
        refused["body"]["detail"].as_str().is_some_and(|it| it.contains("limits.stream_calls"))
    );
    assert_eq!(refused["retry_after"], 1);
    assert_eq!(talk.call("info", &json!(null)).await["status"], 429);
    for _ in 0..10 {
        talk.ok("heartbeat", &held.proof()).await;
        let batch = json!({ "leases": [held.proof()] });
        assert_eq!(talk.ok("heartbeats", &batch).await["results"][0]["status"], 200);
    }
    assert_eq!(talk.ok("release", &held.proof()).await["released"], true);
    assert_eq!(talk.answer(waiting[0]).await["status"], 200);
    assert_eq!(talk.call("info", &json!(null)).await["status"], 200, "there is room again");
}

#[tokio::test]
async fn a_node_has_so_many_streams_and_no_more() {
    let server = Server::with(&["limits.streams=2"]);
    let _first = Talk::open(server.addr).await;
    let second = Talk::open(server.addr).await;
    let refused = Talk::open_with(server.addr, &[]).await.err().expect("no third");
    let problem = refused.problem(429, "busy");
    assert!(
        problem["detail"].as_str().is_some_and(|it| it.contains("limits.streams")),
        "{problem}"
    );
    drop(second);
    eventually("one is free", async || Talk::open_with(server.addr, &[]).await.is_ok()).await;
}

#[tokio::test]
async fn streams_take_no_more_than_three_quarters_of_the_places() {
    let server = Server::with(&["server.workers=1", "server.max_connections=8"]);
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(Talk::open(server.addr).await);
    }
    let refused = Talk::open_with(server.addr, &[]).await.err().expect("no seventh");
    refused.problem(429, "busy");
    assert_eq!(server.get("/v1/info").await.status, 200, "others are served");
    // And none of them is closed for those that come.
    for talk in &mut open {
        talk.ok("info", &json!(null)).await;
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_stream_and_a_body_is_refused() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let value = "v".repeat(200 * 1024);
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "value": value });
    let refused = talk.call("acquire", &body).await;
    assert_eq!(
        (&refused["status"], &refused["body"]["code"]),
        (&json!(413), &json!("body-too-large"))
    );
    // It fits into a message, and into the body of a batch.
    let keys: Vec<String> = (0..9000).map(|n| format!("{n:0>80}")).collect();
    let any = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "count": 1 });
    assert!(any.to_string().len() > 700 * 1024);
    assert_eq!(talk.ok("acquire_any", &any).await["grants"].as_array().map(Vec::len), Some(1));
    assert!(server.metric("tenure_streams ").await > 0.0);
    // The head of the frame announces a gigabyte, and nothing of it is read.
    let head = [&[0x81, 0xff][..], &(1_u64 << 30).to_be_bytes(), &[0; 4]].concat();
    talk.connection().write_all(&head).await.expect("sent");
    assert_eq!(talk.code().await, Some(1009));
}

#[tokio::test]
async fn long_messages_count_as_bodies() {
    let server = Server::with(&["limits.body_bytes=2MiB"]);
    let mut parked = Vec::new();
    for _ in 0..3 {
        let mut talk = Talk::open(server.addr).await;
        // 1 MiB of a message is announced, and nearly all of it comes.
        let head = [&[0x81, 0xff][..], &(1_u64 << 20).to_be_bytes(), &[0; 4]].concat();
        talk.connection().write_all(&head).await.expect("sent");
        let _ = talk.connection().write_all(&vec![b' '; 1_000_000]).await;
        parked.push(talk);
    }
    // Two of them fit, and the server reads all three at once.
    let ends = parked.iter_mut().map(|talk| Box::pin(talk.code()));
    let (code, ..) = futures_util::future::select_all(ends).await;
    assert_eq!(code, Some(1013));
    // Short messages need no room.
    let mut talk = Talk::open(server.addr).await;
    talk.ok("info", &json!(null)).await;
    drop(parked);
    eventually("there is room again", async || {
        let mut talk = Talk::open(server.addr).await;
        let value = "v".repeat(16 * 1024);
        let body =
            json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "value": value, "reclaim": true });
        talk.begin("acquire", &body).await;
        talk.message().await.is_ok()
    })
    .await;
}

/// 14 bytes of each of these streams once took a mebibyte of the room for all bodies, and of that for heartbeats.
#[tokio::test]
async fn what_is_announced_and_does_not_come_takes_no_room() {
    let server = Server::with(&["limits.body_bytes=2MiB"]);
    let mut leases = Vec::new();
    for at in 0..200 {
        leases.push(server.acquire(&format!("k{at:04}"), "w", 60_000).await.proof());
    }
    let batch = json!({ "leases": leases });
    let mut parked = Vec::new();
    for at in 0..40 {
        let mut talk = Talk::open(server.addr).await;
        // A message in one frame, or in fragments.
        let kind = if at % 2 == 0 { 0x81 } else { 0x01 };
        let head = [&[kind, 0xff][..], &(1_u64 << 20).to_be_bytes(), &[0; 4]].concat();
        talk.connection().write_all(&head).await.expect("sent");
        parked.push(talk);
    }
    let mut talk = Talk::open(server.addr).await;
    for _ in 0..3 {
        server.post("/v1/heartbeats", &batch).await.ok();
        talk.ok("heartbeats", &batch).await;
    }
    // Nor does it in a body: 1 MiB is announced there.
    let value = "v".repeat(16 * 1024);
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "value": value });
    talk.ok("acquire", &body).await;
}

#[tokio::test]
async fn what_is_no_text_ends_the_stream() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    talk.send_message(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(talk.code().await, Some(1003));
    // A frame without a mask.
    let mut talk = Talk::open(server.addr).await;
    talk.connection().write_all(&[0x81, 0x02, b'{', b'}']).await.expect("sent");
    assert_eq!(talk.code().await, Some(1002));
}

#[tokio::test]
async fn whoever_says_nothing_is_closed_and_whoever_answers_pings_is_not() {
    let server = Server::with(&["server.stream_ping=100ms"]);
    let mut lives = Talk::open(server.addr).await;
    // It reads, and so answers pings; nobody reads this one.
    let mut silent = Connection::open(server.addr).await;
    silent.send("GET", "/v1/stream", &UPGRADE, b"").await;
    assert_eq!(silent.head().await.expect("a head").0, 101);
    let open = async || server.metric("tenure_streams ").await;
    let reading = async { while lives.message().await.is_ok() {} };
    tokio::select! {
        () = reading => panic!("it answers pings"),
        () = eventually("one is closed", async || open().await < 1.5) => {}
    }
    let ended = "tenure_streams_ended_total{reason=\"silent\"}";
    assert!((server.metric(ended).await - 1.0).abs() < f64::EPSILON);
    tokio::time::timeout(ms(1000), async { while lives.message().await.is_ok() {} })
        .await
        .expect_err("it lives on");
}

#[tokio::test]
async fn a_message_that_does_not_come_to_its_end_ends_the_stream() {
    let server = Server::with(&["server.stream_ping=100ms"]);
    let mut slow = Talk::open(server.addr).await;
    // The first of several parts: 16 KiB of it came. The pings are answered.
    let begin = [&[0x01, 0xfe][..], &(16_384_u16).to_be_bytes(), &[0; 4]].concat();
    slow.connection().write_all(&begin).await.expect("sent");
    slow.connection().write_all(&[b' '; 16_384]).await.expect("sent");
    let (code, reason) = slow.end().await.expect("a reason");
    assert_eq!(code, 1008);
    assert!(reason.contains("did not come to its end"), "{reason}");
    let ended = "tenure_streams_ended_total{reason=\"slow\"}";
    assert!((server.metric(ended).await - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn whoever_does_not_read_loses_its_stream_and_keeps_nobody_waiting() {
    let server = Server::with(&["server.stream_ping=1h"]);
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small window");
    let mut deaf = Connection::over(socket.connect(server.addr).await.expect("connected"));
    deaf.send("GET", "/v1/stream", &UPGRADE, b"").await;
    // Each answer is longer than its call, until the server reads no more.
    let flood = async {
        for id in 1_000_000.. {
            let call = json!({ "id": id, "op": "info" }).to_string();
            let mut frame = vec![0x81, 0x80 | u8::try_from(call.len()).expect("short"), 0, 0, 0, 0];
            frame.extend_from_slice(call.as_bytes());
            if deaf.stream.get_mut().write_all(&frame).await.is_err() {
                return;
            }
        }
    };
    let ended = async {
        // The server is patient for as long as `eventually` is.
        sleep_ms(30_000).await;
        eventually("the stream ends", async || {
            server.metric("tenure_streams_ended_total{reason=\"stuck\"}").await >= 1.0
        })
        .await;
    };
    tokio::select! {
        () = flood => {}
        () = ended => {}
    }
    soon("others are served", server.get("/v1/info")).await.ok();
    assert!(server.metric("tenure_streams ").await < 0.5);
}
