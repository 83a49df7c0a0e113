use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc,
    time::Duration,
};

use super::*;

/// Answers one connection after the other with the given bytes, and returns the requests.
fn server(answers: Vec<String>) -> (Client, mpsc::Receiver<String>) {
    let (url, requests) = serve(answers);
    (Client::new(&url).unwrap(), requests)
}

/// The same, with the server's URL instead of a client.
fn serve(answers: Vec<String>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = socket.read(&mut buffer) {
                request.extend_from_slice(&buffer[..count]);
                if request.ends_with(b"\r\n\r\n") || request.ends_with(b"}") {
                    break;
                }
            }
            seen.send(String::from_utf8(request).unwrap()).unwrap();
            socket.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, requests)
}

fn http(status: u16, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn json(status: u16, body: &str) -> String {
    http(status, "application/json", body)
}

const GRANT: &str = r#"{"key":"jobs/1","state":"held","owner":"w","token":7,"ttl_ms":15000,"pool":"default",
    "lease_id":"00ff","valid_for_ms":14700,"waiters":0,"pinned":false}"#;

fn acquire(request_id: Option<&str>) -> Acquire {
    Acquire {
        key: "jobs/1".into(),
        owner: Owner { owner: "w".into(), ttl_ms: Some(15_000), session: None },
        request_id: request_id.map(str::to_owned),
        ..Acquire::default()
    }
}

#[tokio::test]
async fn a_grant_is_read_and_fields_that_are_new_are_kept() {
    let (client, requests) = server(vec![json(200, GRANT)]);
    let grant = client.acquire(&acquire(None)).await.unwrap();
    assert_eq!((grant.lease.token, grant.valid_for_ms), (Some(7), 14_700));
    assert_eq!(grant.lease.other["pool"], "default");
    let request = requests.recv().unwrap();
    assert!(request.starts_with("POST /v1/acquire HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with(r#"{"key":"jobs/1","owner":"w","ttl_ms":15000}"#), "{request}");
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_id_and_never_without_one() {
    let (client, requests) = server(vec![String::new(), json(200, GRANT)]);
    assert!(client.acquire(&acquire(Some("r1"))).await.is_ok());
    let bodies = [requests.recv().unwrap(), requests.recv().unwrap()]
        .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned());
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[0].contains("\"request_id\":\"r1\""));

    let (client, requests) = server(vec![String::new(), json(200, GRANT)]);
    let error = client.acquire(&acquire(None)).await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    assert!(error.to_string().contains("may have been carried out"), "{error}");
    assert_eq!(requests.iter().take(1).count(), 1);
}

#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words() {
    let body = r#"{"type":"about:blank","title":"Held","status":409,"code":"held","retryable":true,"retry_after_ms":1200,
        "detail":"jobs/1 is held by w2","lease":{"key":"jobs/1","state":"held","owner":"w2","token":5,"expires_in_ms":900}}"#;
    let (client, _requests) = server(vec![http(409, "application/problem+json", body)]);
    let error = client.acquire(&acquire(None)).await.unwrap_err();
    let problem = error.problem().unwrap();
    assert_eq!((problem.status, problem.code.as_str()), (409, "held"));
    assert_eq!((problem.retryable, problem.retry_after_ms), (true, Some(1200)));
    assert_eq!(problem.lease.as_ref().unwrap().owner.as_deref(), Some("w2"));
    assert_eq!(error.to_string(), "jobs/1 is held by w2 [held]");
    assert!(!error.may_have_happened());
}

#[tokio::test]
async fn what_is_not_tenure_is_told_apart_from_what_is_not_there() {
    let (client, _requests) =
        server(vec![http(200, "text/html", "<html>hi"), http(502, "text/plain", "bad gateway")]);
    for _ in 0..2 {
        let error = client.check("k", 1).await.unwrap_err();
        assert!(matches!(error, ClientError::NotUnderstood { .. }), "{error:?}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Client::new(&format!("http://{closed}")).unwrap().check("k", 1).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { sent: false, .. }), "{error:?}");
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
    for url in ["127.0.0.1", "ftp://a", "http://", "https://", ""] {
        assert!(matches!(Client::new(url), Err(ClientError::Address { .. })), "{url}");
    }
}

#[tokio::test]
async fn every_key_survives_the_path() {
    let lease = r#"{"key":"x","state":"free"}"#;
    let page = r#"{"leases":[{"key":"..","state":"free"}],"next":null}"#;
    let (client, requests) =
        server(vec![json(200, lease), json(200, lease), json(200, page), json(200, page)]);
    client.lease("a/../b c?#%2F🦀").await.unwrap();
    client.lease("...").await.unwrap();
    assert_eq!(client.lease("..").await.unwrap().key, "..");
    let filter = LeaseFilter { prefix: Some("a&b".into()), limit: Some(5), ..Default::default() };
    client.leases(&filter).await.unwrap();
    let paths: Vec<String> = requests
        .iter()
        .take(4)
        .map(|request| request.split(' ').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "/v1/leases/a%2F..%2Fb%20c%3F%23%252F%F0%9F%A6%80",
            "/v1/leases/...",
            "/v1/leases?key=..",
            "/v1/leases?prefix=a%26b&limit=5"
        ]
    );
}

#[tokio::test]
async fn a_broken_stream_resumes_after_the_last_event() {
    let stream = |events: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
        )
    };
    let busy = r#"{"title":"Draining","status":503,"code":"draining","retryable":true}"#;
    let (client, requests) = server(vec![
        stream(": hi\n\nid: 1-0\nevent: granted\ndata: {\"subject\":\"a\"}\n\nid: 2-0\nevent: rel"),
        http(503, "application/problem+json", busy),
        stream("id: 9-0\nevent: reset\ndata: {}\n\n"),
        stream(""),
    ]);
    let filter = EventFilter { types: Some("granted,released".into()), ..Default::default() };
    let mut events = client.events(filter);
    let mut told = Vec::new();
    while told.len() < 9 {
        told.push(match events.next().await.unwrap() {
            StreamItem::Connected => "connected".to_owned(),
            StreamItem::Event(event) => format!("{} {}", event.kind, event.key().unwrap_or("-")),
            StreamItem::Disconnected { .. } => "lost".to_owned(),
        });
    }
    let expected = "connected|granted a|lost|lost|connected|reset -|lost|connected|lost";
    assert_eq!(told.join("|"), expected);
    let requests: Vec<String> = requests.iter().take(4).collect();
    assert!(requests[0].starts_with("GET /v1/events?types=granted%2Creleased "));
    let cursors = requests.iter().map(|request| {
        let at = request.to_lowercase().find("last-event-id: ")? + "last-event-id: ".len();
        request[at..].split("\r\n").next().map(str::to_owned)
    });
    let cursors: Vec<Option<String>> = cursors.collect();
    let expected = [None, Some("1-0"), Some("1-0"), Some("9-0")];
    assert_eq!(cursors, expected.map(|cursor| cursor.map(str::to_owned)));
}

#[tokio::test]
async fn a_stream_that_never_was_is_an_error() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{closed}")).unwrap();
    assert!(client.events(EventFilter::default()).next().await.is_err());
}

#[cfg(feature = "server")]
#[test]
fn what_a_caller_asks_for_is_a_body_that_coordinators_take() {
    use crate::api::{self, AcquireAnyBody, AcquireBody, AnyOrder};

    let owner = || Owner { owner: "w".into(), ttl_ms: Some(1), session: Some("s".into()) };
    let one = Acquire {
        key: "k".into(),
        owner: owner(),
        wait_ms: Some(2),
        value: Some("v".into()),
        reclaim: Some(true),
        min_hold_ms: Some(3),
        request_id: Some("r".into()),
    };
    let body: AcquireBody = serde_json::from_value(serde_json::json!(one)).unwrap();
    assert_eq!((&*body.owner, body.ttl_ms, body.wait_ms, body.reclaim), ("w", Some(1), 2, true));
    assert_eq!(body.min_hold_ms, 3);
    let any = AcquireAny {
        keys: vec!["k".into()],
        prefix: Some("k".into()),
        pool: Some("p".into()),
        owner: owner(),
        count: Some(Count::UpTo(3)),
        order: Some(AnyOrder::Sticky.as_str().into()),
        wait_ms: Some(2),
        request_id: Some("r".into()),
    };
    let body: AcquireAnyBody = serde_json::from_value(serde_json::json!(any)).unwrap();
    assert_eq!((body.count, body.order), (api::Count::UpTo(3), AnyOrder::Sticky));
    let wanted =
        [WantedKey::new("a"), WantedKey::new("b").permits(2), WantedKey::new("c").exclusive()];
    let all = AcquireAll {
        keys: wanted.into(),
        owner: owner(),
        wait_ms: Some(2),
        request_id: Some("r".into()),
    };
    let body: api::AcquireAllBody = serde_json::from_value(serde_json::json!(all)).unwrap();
    let taken: Vec<_> = body.keys.iter().map(|wanted| (wanted.permits, wanted.mode)).collect();
    assert_eq!(taken, [(None, None), (Some(2), None), (None, Some(api::Mode::Exclusive))]);
    let fair = AcquireAny { count: Some(Count::Fair), ..any };
    let body: AcquireAnyBody = serde_json::from_value(serde_json::json!(fair)).unwrap();
    assert_eq!(body.count, api::Count::Fair);
}

const UNKNOWN: &str = r#"{"title":"The caller is unknown","status":401,"code":"unauthenticated"}"#;

#[tokio::test]
async fn a_token_that_is_not_known_is_read_again_and_the_call_sent_once_more() {
    let current = r#"{"current":false}"#;
    let denied = || json(401, UNKNOWN);
    let (url, requests) = serve(vec![denied(), json(200, current), denied(), json(200, current)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let client = Client::builder(&url).token_file(file.path()).build().unwrap();
    std::fs::write(file.path(), "second\n").unwrap();
    assert!(!client.check("k", 1).await.unwrap().current);
    // With the same token, the call is not repeated.
    let error = client.check("k", 1).await.unwrap_err();
    assert!(error.is_no_permission() && error.to_string().contains("[unauthenticated]"), "{error}");
    assert!(client.check("k", 1).await.is_ok());
    let sent = requests.iter().take(4).map(|request| {
        let token = request.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
        token.map(str::to_owned)
    });
    assert_eq!(
        sent.collect::<Vec<_>>(),
        ["first", "second", "second", "second"].map(|t| Some(t.into()))
    );
    assert!(!format!("{client:?}").contains("second"));
    assert!(client.environment().iter().all(|(name, _)| !name.contains("TOKEN")));
}

#[tokio::test]
async fn a_client_without_a_token_sends_none_and_one_that_cannot_send_its_own_is_not_built() {
    let (client, requests) = server(vec![json(401, UNKNOWN)]);
    assert!(client.check("k", 1).await.unwrap_err().is_no_permission());
    assert!(!requests.recv().unwrap().to_lowercase().contains("authorization"));
    for (builder, told) in [
        (Client::builder("http://a.example").token("x"), "plain text"),
        (Client::builder("http://127.0.0.1:1").token(" "), "is empty"),
        (Client::builder("http://127.0.0.1:1").token_file("/no/such"), "/no/such cannot be read"),
    ] {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, ClientError::Token { .. }), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    assert!(Client::builder("http://a.example").token("x").plaintext_token(true).build().is_ok());
}
