//! Acquires whose answers are lost, against scripted servers.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Client, ClientError, Hold, LeaseFilter};

/// What a scripted server does with a request.
#[derive(Clone)]
enum Act {
    Answer(u16, Value),
    /// Closes the connection without an answer.
    Swallow,
    /// Gives no answer for as long as the test runs.
    Hang,
}

/// A server that follows its script, one connection after the other, and returns bodies and paths.
fn server(acts: Vec<Act>) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, requests) = channel();
    std::thread::spawn(move || {
        let mut hanging = Vec::new();
        for act in acts {
            let (mut socket, _) = listener.accept().unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            let body = loop {
                let read = socket.read(&mut buffer).unwrap_or(0);
                request.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
                if body.is_some() && text.starts_with("GET ") {
                    break Value::Null;
                }
                if let Some(Ok(body)) = body.map(|body| serde_json::from_str(&body)) {
                    break body;
                }
                assert!(read > 0, "{text}");
            };
            let text = String::from_utf8_lossy(&request);
            let path = text.split(' ').nth(1).unwrap().to_owned();
            let _ = seen.send((path, body));
            if matches!(act, Act::Hang) {
                hanging.push(socket);
                continue;
            }
            if let Act::Answer(status, body) = act {
                let body = body.to_string();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = socket.write_all(answer.as_bytes());
            }
        }
    });
    (url, requests)
}

fn grant(valid_for_ms: u64) -> Act {
    Act::Answer(
        200,
        json!({ "key": "a", "state": "held", "owner": "w", "token": 7, "ttl_ms": 60_000,
            "lease_id": "00ff", "valid_for_ms": valid_for_ms }),
    )
}

fn problem(status: u16, code: &str, more: Value) -> Act {
    let mut body = json!({ "title": code, "status": status, "code": code, "retryable": true });
    let fields = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    Act::Answer(status, body)
}

fn hold() -> Hold {
    Hold::key("a").owner("w").ttl(Duration::from_secs(60))
}

fn ids(requests: &Receiver<(String, Value)>, count: usize) -> Vec<String> {
    let id = |(_, body): (String, Value)| body["request_id"].as_str().unwrap().to_owned();
    requests.iter().take(count).map(id).collect()
}

#[tokio::test]
async fn lost_answers_and_passing_refusals_are_asked_for_under_the_same_id_at_any_server() {
    let (first, seen_first) =
        server(vec![Act::Swallow, problem(503, "draining", json!({ "retry_after_ms": 10 }))]);
    let (second, seen_second) =
        server(vec![problem(409, "request-in-flight", json!({})), grant(58_000)]);
    let client = Client::builder(&format!("{first},{second}")).in_order(true).build().unwrap();
    let lease = client.hold(hold()).await.unwrap();
    assert_eq!((lease.token(), lease.valid()), (7, true));
    let mut all = ids(&seen_first, 2);
    all.extend(ids(&seen_second, 2));
    all.dedup();
    assert_eq!(all.len(), 1, "{all:?}");
}

#[tokio::test]
async fn an_answer_that_came_too_late_is_asked_for_again() {
    let (url, seen) = server(vec![grant(0), grant(50_000)]);
    let lease = Client::new(&url).unwrap().hold(hold()).await.unwrap();
    assert!(lease.valid());
    let ids = ids(&seen, 2);
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn who_waits_asks_under_a_new_id_only_when_the_former_one_is_spent() {
    let (url, seen) = server(vec![
        problem(409, "held", json!({})),
        Act::Swallow,
        problem(409, "request-id-spent", json!({ "retryable": false })),
        grant(50_000),
    ]);
    let client = Client::new(&url).unwrap();
    client.hold(hold().wait(Duration::from_secs(20))).await.unwrap();
    let ids = ids(&seen, 4);
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
}

#[tokio::test]
async fn a_wait_that_the_server_finds_too_long_is_cut() {
    let long = Value::from("wait_ms");
    let too_long = json!({ "field": long, "retryable": false });
    let (url, seen) = server(vec![
        problem(400, "invalid-field", too_long),
        problem(409, "held-by-you", json!({})),
    ]);
    let client = Client::new(&url).unwrap();
    let refused = client.hold(hold().wait(Duration::from_secs(3600))).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "held-by-you");
    let waits: Vec<u64> =
        seen.iter().take(2).map(|(_, body)| body["wait_ms"].as_u64().unwrap()).collect();
    assert!(waits[1] < waits[0] && waits[1] > 1000, "{waits:?}");
}

#[tokio::test]
async fn of_several_servers_one_is_enough_and_it_is_asked_first_from_then_on() {
    let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refuses = || problem(409, "held-by-you", json!({ "retryable": false }));
    let (url, seen) = server(vec![refuses(), refuses()]);
    for list in [
        format!("http://{},{url},http://{}", closed(), closed()),
        format!("http://{},http://{},{url}", closed(), closed()),
    ] {
        let client = Client::new(&list).unwrap();
        let refused = client.hold(hold()).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().code, "held-by-you");
        assert_eq!(client.servers.current().as_str().trim_end_matches('/'), url);
    }
    assert_eq!(seen.iter().take(2).count(), 2);
}

#[tokio::test]
async fn a_look_that_finds_the_lease_free_ends_a_silent_call_and_repeats_it() {
    let view = |state: &str, pinned: bool| {
        let view = json!({ "key": "a", "state": state, "pinned": pinned, "waiters": 1 });
        Act::Answer(200, view)
    };
    let (url, seen) =
        server(vec![Act::Hang, view("held", false), view("free", false), grant(50_000)]);
    let client = Client::new(&url).unwrap();
    let started = client.clock().now();
    client.hold(hold().wait(Duration::from_secs(60))).await.unwrap();
    let took = client.clock().now().since(started);
    assert!((20..23).contains(&took.as_secs()), "the second look, after {took:?}");
    let seen: Vec<_> = seen.iter().take(4).collect();
    assert_eq!(seen[1].0, "/v1/leases/a");
    assert_eq!(seen[0].1["request_id"], seen[3].1["request_id"]);
    // The coordinator has a reason not to grant it.
    let (url, seen) = server(vec![Act::Hang, view("free", true), grant(50_000)]);
    let pinned = Client::new(&url).unwrap().hold(hold().wait(Duration::from_secs(12))).await;
    assert!(pinned.is_err() && seen.iter().take(2).count() == 2);
}

#[tokio::test]
async fn an_earlier_tenure_of_the_owner_is_outwaited_only_if_asked() {
    let own = || problem(409, "held-by-you", json!({ "retryable": false }));
    let (url, _seen) = server(vec![own(), own(), grant(50_000), own()]);
    let client = Client::new(&url).unwrap();
    let wait = || hold().wait(Duration::from_secs(20));
    client.hold(wait().outwait_own(true)).await.unwrap();
    let refused = client.hold(wait()).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "held-by-you");
}

#[test]
fn many_clients_begin_with_different_servers() {
    let list = "http://a:1,http://b:1,http://c:1";
    let first = |in_order| {
        let built = || Client::builder(list).in_order(in_order).build().unwrap();
        (0..100).map(|_| built().servers.current().to_string()).collect::<BTreeSet<_>>().len()
    };
    assert_eq!([first(false), first(true)], [3, 1]);
}

#[tokio::test]
async fn nothing_that_listens_is_told_at_once() {
    let closed = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{},http://{}", closed(), closed())).unwrap();
    let told = tokio::time::timeout(Duration::from_secs(3), client.hold(hold())).await.unwrap();
    assert!(matches!(told, Err(ClientError::Unreachable { sent: false, .. })), "{told:?}");
}

#[tokio::test]
async fn a_caller_that_gives_up_gives_back_what_it_may_have_been_granted() {
    let (url, seen) =
        server(vec![Act::Hang, grant(50_000), Act::Answer(200, json!({ "released": true }))]);
    let client = Client::new(&url).unwrap();
    let holding = tokio::spawn(async move { client.hold(hold()).await });
    let (first, seen) =
        tokio::task::spawn_blocking(move || (seen.recv().unwrap(), seen)).await.unwrap();
    holding.abort();
    let rest = tokio::task::spawn_blocking(move || seen.iter().take(2).collect::<Vec<_>>());
    let rest = rest.await.unwrap();
    assert_eq!(rest[0].1["request_id"], first.1["request_id"]);
    assert_eq!((rest[1].0.as_str(), &rest[1].1["lease_id"]), ("/v1/release", &json!("00ff")));
}

#[tokio::test]
async fn what_an_overloaded_server_refused_is_asked_of_another_at_once_or_again_when_it_said() {
    let overloaded = |ms: u64| problem(503, "overloaded", json!({ "retry_after_ms": ms }));
    let (first, _seen) = server(vec![overloaded(60_000), overloaded(60_000)]);
    let (second, _seen) = server(vec![grant(50_000), Act::Answer(200, json!({ "leases": [] }))]);
    let soon = Duration::from_secs(3);
    let client = Client::builder(&format!("{first},{second}")).in_order(true).build().unwrap();
    let _lease = tokio::time::timeout(soon, client.hold(hold())).await.unwrap().unwrap();
    let filter = LeaseFilter::default();
    tokio::time::timeout(soon, client.leases(&filter)).await.unwrap().unwrap();

    let list = Act::Answer(200, json!({ "leases": [] }));
    let (url, seen) =
        server(vec![overloaded(300), grant(50_000), overloaded(200), list, overloaded(60_000)]);
    let client = Client::new(&url).unwrap();
    let begun = client.clock().now();
    let _lease = client.hold(hold()).await.unwrap();
    client.leases(&filter).await.unwrap();
    assert!(client.clock().now() >= begun + Duration::from_millis(500));
    assert_eq!(ids(&seen, 2).iter().collect::<std::collections::HashSet<_>>().len(), 1);
    // A pause that is longer than the caller would wait is the caller's to decide on.
    let refused = client.leases(&filter).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "overloaded");
}
