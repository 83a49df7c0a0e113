//! Bodies that are empty, torn, huge, nested, doubled or of another shape: 4xx, and never a 5xx.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::harness::{Connection, Server, ms};

const MIB: usize = 1 << 20;
/// Most bytes of the body of a call about one lease or session.
const SINGLE: usize = 128 * 1024;
/// Most bytes of the body of a call about many.
const BATCH: usize = 1024 * 1024;

const POSTS: [&str; 12] = [
    "/v1/acquire",
    "/v1/acquire-any",
    "/v1/heartbeat",
    "/v1/heartbeats",
    "/v1/release",
    "/v1/releases",
    "/v1/transfer",
    "/v1/check",
    "/v1/admin/revoke",
    "/v1/admin/pin",
    "/v1/admin/unpin",
    "/v1/admin/drain",
];

#[tokio::test]
async fn what_is_no_json_object_of_the_right_shape_is_a_400() {
    let server = Server::start();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let nested = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    let nested_field = format!("{{\"key\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
    let bad: [&[u8]; 20] = [
        b"",
        b" ",
        b"not json",
        b"{",
        b"{}x",
        b"{} {}",
        b"[]",
        b"null",
        b"true",
        b"\"text\"",
        b"1e999",
        b"{\"key\":}",
        b"{\"key\":\"a\",}",
        b"{'key':'a'}",
        b"\xff\xfe",
        b"{\"key\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
        deep.as_bytes(),
        nested.as_bytes(),
        nested_field.as_bytes(),
    ];
    for path in POSTS {
        let mut connection = Connection::open(server.addr).await;
        for body in bad {
            let reply = connection.call("POST", path, &[], body).await;
            assert_eq!(reply.status, 400, "{path} {:?}", String::from_utf8_lossy(body));
            reply.malformed();
        }
    }
}

#[tokio::test]
async fn unknown_doubled_missing_and_mistyped_fields_are_named() {
    let server = Server::start();
    let ask = async |body: &str| server.call("POST", "/v1/acquire", body.as_bytes()).await;
    let cases = [
        (r#"{"key":"k","owner":"w","ttl_ms":1000,"colour":"red"}"#, "colour"),
        (r#"{"key":"k","key":"k","owner":"w","ttl_ms":1000}"#, "key"),
        (r#"{"key":"k","owner":"w","ttl_ms":1000,"ttl_ms":1000}"#, "ttl_ms"),
        (r#"{"owner":"w","ttl_ms":1000}"#, "key"),
        (r#"{"key":1,"owner":"w","ttl_ms":1000}"#, "key"),
        (r#"{"key":"k","owner":["w"],"ttl_ms":1000}"#, "owner"),
        (r#"{"key":"k","owner":"w","ttl_ms":"1000"}"#, "ttl_ms"),
        (r#"{"key":"k","owner":"w","ttl_ms":1000.5}"#, "ttl_ms"),
        (r#"{"key":"k","owner":"w","ttl_ms":-1}"#, "ttl_ms"),
        (r#"{"key":"k","owner":"w","ttl_ms":18446744073709551616}"#, "ttl_ms"),
        (r#"{"key":"k","owner":"w","ttl_ms":1000,"reclaim":1}"#, "reclaim"),
        (r#"{"key":"k","owner":"w","ttl_ms":1000,"wait_ms":null}"#, "wait_ms"),
        (r#"{"KEY":"k","owner":"w","ttl_ms":1000}"#, "KEY"),
    ];
    for (body, field) in cases {
        let problem = ask(body).await.malformed();
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    // A lease has a ttl or a session.
    for (body, field) in [
        (r#"{"key":"k","owner":"w"}"#, "ttl_ms"),
        (r#"{"key":"k","owner":"w","ttl_ms":null}"#, "ttl_ms"),
        (r#"{"key":"k","owner":"w","ttl_ms":1000,"session":"s"}"#, "session"),
    ] {
        ask(body).await.bad_field(field);
    }
    let batch = r#"{"leases":[{"key":"k","lease_id":"i"},{"key":"k","lease_id":7}]}"#;
    let problem = server.call("POST", "/v1/heartbeats", batch.as_bytes()).await.malformed();
    assert_eq!(problem["field"], "leases[1].lease_id");
    server.get("/v1/leases/k").await.problem(404, "unknown-key");
    // Fields in their order, without their names, are no object.
    let batch = br#"{"leases":[{"key":"k","lease_id":"i"},["k","i"]]}"#;
    let problem = server.call("POST", "/v1/heartbeats", batch).await.malformed();
    assert_eq!(problem["field"], "leases[1]");
    let batch = br#"{"leases":[{"key":"k"}]}"#;
    let problem = server.call("POST", "/v1/releases", batch).await.malformed();
    assert_eq!(problem["field"], "leases[0].lease_id");
    for more in [r#""order":{"listed":null}"#, r#""count":{"fair":null}"#, r#""count":1.5"#] {
        let body = format!(r#"{{"keys":["k"],"owner":"w","ttl_ms":1000,{more}}}"#);
        let problem = server.call("POST", "/v1/acquire-any", body.as_bytes()).await.malformed();
        assert_eq!(problem["field"], more.split('"').nth(1).expect("a name"), "{problem}");
    }
    // The optional ones may be null, as many libraries write them.
    ask(r#"{"key":"k","owner":"w","ttl_ms":1000,"value":null,"request_id":null}"#).await.ok();
}

#[tokio::test]
async fn what_is_wrong_is_said_in_terms_of_json() {
    let server = Server::start();
    for (path, body, detail) in [
        (
            "/v1/acquire",
            r#"{"key":"k","owner":"w","ttl_ms":-1}"#,
            "invalid value: integer `-1`, expected a whole number from 0 to 18446744073709551615, at line 1 column 34",
        ),
        ("/v1/acquire", "[]", "invalid type: a list, expected a JSON object, at line 1 column 0"),
        (
            "/v1/acquire",
            r#"{"key":"k","owner":"w","ttl_ms":1,"reclaim":[]}"#,
            "invalid type: a list, expected true or false, at line 1 column 44",
        ),
        (
            "/v1/sessions",
            r#"{"owner":"w","ttl_ms":1,"weight":4294967296}"#,
            "invalid value: integer `4294967296`, expected a whole number from 0 to 4294967295, at line 1 column 43",
        ),
        (
            "/v1/heartbeats",
            r#"{"leases":{}}"#,
            "invalid type: an object, expected a list, at line 1 column 10",
        ),
    ] {
        let problem = server.call("POST", path, body.as_bytes()).await.malformed();
        assert_eq!(problem["detail"], detail);
    }
    for (path, field) in [
        ("/v1/leases?limit=x", "limit"),
        ("/v1/leases?limit=%2B5", "limit"),
        ("/v1/leases?limit=", "limit"),
        ("/v1/leases/k?gate=256", "gate"),
        ("/v1/leases/k?gat=1", "gat"),
        ("/v1/events?format=json&wait_ms=-1", "wait_ms"),
        ("/v1/sessions?limit=18446744073709551616", "limit"),
    ] {
        let problem = server.get(path).await.malformed();
        assert_eq!(problem["field"], field, "{path}");
    }
    let problem = server.get("/v1/leases/k?gate=x").await.malformed();
    let detail = "invalid value: string \"x\", expected a whole number from 0 to 255";
    assert_eq!(problem["detail"], detail);
}

#[tokio::test]
async fn a_body_beyond_the_limit_of_its_call_is_a_413_that_names_it() {
    let server = Server::start();
    let value = |length: usize| {
        let empty = r#"{"key":"k","owner":"w","ttl_ms":1000,"value":""}"#;
        empty.replace("\"\"", &format!("\"{}\"", "v".repeat(length - empty.len())))
    };
    let largest = value(SINGLE);
    assert_eq!(largest.len(), SINGLE);
    server.call("POST", "/v1/acquire", largest.as_bytes()).await.bad_field("value");
    let sessions = ["/v1/sessions", "/v1/sessions/x/heartbeat", "/v1/sessions/x/drain"];
    for path in POSTS.into_iter().chain(sessions) {
        let is_batch = ["/v1/acquire-any", "/v1/heartbeats", "/v1/releases"].contains(&path);
        let most = if is_batch { BATCH } else { SINGLE };
        assert_eq!(server.call("POST", path, value(most).as_bytes()).await.status, 400, "{path}");
        for length in [most + 1, 2 * BATCH] {
            let reply = server.call("POST", path, value(length).as_bytes()).await;
            let problem = reply.problem(413, "body-too-large");
            let detail = problem["detail"].as_str().expect("a detail");
            assert!(detail.contains(&format!("{most} bytes")), "{path}: {detail}");
        }
    }
    let reply = server.call("POST", "/v1/heartbeats", value(64 * BATCH).as_bytes()).await;
    reply.problem(413, "body-too-large");
    // A value of the largest size is taken, however it is written.
    let escaped = format!(
        r#"{{"key":"k","owner":"w","ttl_ms":60000,"value":"{}"}}"#,
        r"\u0001".repeat(16 * 1024)
    );
    server.call("POST", "/v1/acquire", escaped.as_bytes()).await.ok();
}

#[tokio::test]
async fn a_chunked_body_is_read_and_bounded_too() {
    let server = Server::start();
    let send = async |chunk: &str, times: usize| {
        let mut connection = Connection::open(server.addr).await;
        let mut bytes =
            b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec();
        for _ in 0..times {
            bytes.extend(format!("{:x}\r\n{chunk}\r\n", chunk.len()).into_bytes());
        }
        bytes.extend(b"0\r\n\r\n");
        use tokio::io::AsyncWriteExt;
        let _ = connection.stream.get_mut().write_all(&bytes).await;
        connection.receive().await
    };
    send(r#"{"key":"k","owner":"w","ttl_ms":1000}"#, 1).await.ok();
    send(&"x".repeat(4096), 1000).await.problem(413, "body-too-large");
}

#[tokio::test]
async fn ids_of_a_request_are_echoed_whatever_the_answer() {
    let server = Server::start();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("X-Request-Id", "abc-123"), ("traceparent", trace)];
    let good: &[u8] = br#"{"key":"k","owner":"w","ttl_ms":60000}"#;
    let mut connection = Connection::open(server.addr).await;
    let calls: [(&str, &str, &[u8], u16); 12] = [
        ("POST", "/v1/acquire", good, 200),
        ("POST", "/v1/acquire", good, 409),
        ("POST", "/v1/acquire", b"{}", 400),
        ("POST", "/v1/acquire", b"", 400),
        ("POST", "/v1/heartbeats", b"[1]", 400),
        ("GET", "/v1/leases/k", b"", 200),
        ("GET", "/v1/leases/none", b"", 404),
        ("GET", "/v1/leases?limit=x", b"", 400),
        ("GET", "/v1/events?format=json", b"", 200),
        ("GET", "/nowhere", b"", 404),
        ("GET", "/v1/acquire", b"", 405),
        ("GET", "/livez", b"", 200),
    ];
    for (method, path, body, status) in calls {
        let reply = connection.call(method, path, &headers, body).await;
        assert_eq!(reply.status, status, "{method} {path}");
        assert_eq!(reply.header("x-request-id"), Some("abc-123"), "{method} {path}");
        assert_eq!(reply.header("traceparent"), Some(trace), "{method} {path}");
    }
}

#[tokio::test]
async fn a_flood_of_nonsense_harms_nobody() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    use tokio::io::AsyncWriteExt;
    let junk: [&[u8]; 7] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET\r\n\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/leases/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    for bytes in junk {
        let mut connection = Connection::open(server.addr).await;
        let _ = connection.stream.get_mut().write_all(bytes).await;
        let _ = connection.stream.get_mut().shutdown().await;
        if let Ok(reply) = connection.try_receive().await {
            assert!((400..500).contains(&reply.status), "{}", reply.status);
        }
    }
    server.post("/v1/heartbeat", &grant.proof()).await.ok();
}

#[tokio::test]
async fn of_a_body_that_was_refused_nothing_more_is_read() {
    let server = Server::start();
    let chunk = format!("{:x}\r\n{}\r\n", MIB, " ".repeat(MIB));
    let ways = [
        (format!("content-length: {}", 1_u64 << 40), " ".repeat(MIB)),
        ("transfer-encoding: chunked".to_owned(), chunk),
    ];
    for (length, piece) in ways {
        let stream = TcpStream::connect(server.addr).await.expect("the server accepts");
        let (mut answer, mut body) = stream.into_split();
        let head = format!("POST /v1/acquire HTTP/1.1\r\nhost: localhost\r\n{length}\r\n\r\n");
        body.write_all(head.as_bytes()).await.expect("the head is read");
        let send = async {
            let mut sent = 0;
            // As much as the server takes, until it has closed the connection.
            while let Ok(Ok(some)) = timeout(ms(5000), body.write(piece.as_bytes())).await {
                sent += some;
            }
            sent
        };
        let receive = async {
            let mut said = Vec::new();
            let _ = answer.read_to_end(&mut said).await;
            String::from_utf8_lossy(&said).into_owned()
        };
        let (sent, said) = tokio::join!(send, receive);
        assert!(said.starts_with("HTTP/1.1 413"), "{length}: {said}");
        assert!(sent < 32 * MIB, "{length}: {} MiB were taken", sent / MIB);
    }
}
