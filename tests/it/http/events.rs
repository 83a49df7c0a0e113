//! `GET /v1/events`: the stream, and the long poll.

use serde_json::{Value, json};

use crate::support::harness::{
    Connection, Event, Grant, Server, Stream, eventually, kinds, ms, soon,
};

/// Makes 2 events: granted and released.
async fn turn(server: &Server, key: &str, owner: &str) -> Grant {
    let grant = server.acquire(key, owner, 60_000).await;
    server.release(&grant).await;
    grant
}

#[tokio::test]
async fn an_event_is_a_cloud_event() {
    let server = Server::start();
    let mut stream = Stream::open(&server, "").await;
    let first = turn(&server, "jobs/ü", "w1").await;
    let second = server.acquire("jobs/ü", "w2", 60_000).await;
    let events = stream.events(3).await;
    let (id, kind, event) = &events[2];
    assert_eq!(kind, "granted");
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["id"], *id);
    assert_eq!(event["type"], "io.tenure.lease.granted");
    assert_eq!(event["subject"], "jobs/ü");
    assert!(event["source"].is_string() && event["time"].is_string());
    let data = &event["data"];
    let fields = ["key", "seq", "owner", "token", "previous", "reason", "session", "pool", "node"];
    for field in fields {
        assert!(data.get(field).is_some(), "{field} is missing in {event}");
    }
    assert_eq!(data["seq"], 3);
    assert_eq!(data["owner"], "w2");
    assert_eq!(data["token"], second.token);
    assert_eq!(data["previous"], json!({ "owner": "w1", "token": first.token }));
    assert_eq!(events[1].1, "released");
    assert_eq!(events[1].2["data"]["token"], first.token);
}

#[tokio::test]
async fn per_key_the_order_is_seq_under_load() {
    let server = Server::start();
    let mut stream = Stream::open(&server, "").await;
    let workers = (0..8).map(|worker| {
        let server = &server;
        async move {
            let mut connection = Connection::open(server.addr).await;
            for round in 0..40 {
                let key = format!("k{}", (worker + round) % 5);
                let owner = format!("w{worker}");
                let body =
                    json!({ "key": key, "owner": owner, "ttl_ms": 60_000, "wait_ms": 10_000 });
                let grant = Grant::of(&connection.post("/v1/acquire", &body).await.ok());
                connection.post("/v1/release", &grant.proof()).await.ok();
            }
        }
    });
    futures_util::future::join_all(workers).await;
    let mut seqs = std::collections::HashMap::<String, u64>::new();
    let mut ids = std::collections::HashSet::new();
    for (id, _, event) in stream.events(8 * 40 * 2).await {
        let last = seqs.entry(event["subject"].to_string()).or_default();
        *last += 1;
        assert_eq!(event["data"]["seq"], *last);
        assert!(ids.insert(id), "each cursor once");
    }
}

#[tokio::test]
async fn a_stream_resumes_where_it_was_left_over_a_restart_too() {
    let server = Server::start();
    let mut stream = Stream::open(&server, "").await;
    for _ in 0..5 {
        turn(&server, "k", "w").await;
    }
    let seen = stream.events(4).await;
    let cursor = seen[3].0.clone();
    drop(stream);
    let seq = |event: &(String, String, Value)| event.2["data"]["seq"].as_u64().expect("seq");
    let header = [("Last-Event-ID", cursor.as_str())];
    let mut by_header = Stream::open_with(&server, "", &header).await;
    let mut by_query = Stream::open(&server, &format!("after={cursor}")).await;
    for stream in [&mut by_header, &mut by_query] {
        let seqs: Vec<_> = stream.events(6).await.iter().map(seq).collect();
        assert_eq!(seqs, [5, 6, 7, 8, 9, 10]);
    }
    drop((by_header, by_query));
    let server = server.kill().restart();
    let mut stream = Stream::open_with(&server, "", &header).await;
    let seqs: Vec<_> = stream.events(6).await.iter().map(seq).collect();
    assert_eq!(seqs, [5, 6, 7, 8, 9, 10]);
    // And goes on with what happens now.
    server.acquire("k", "w", 60_000).await;
    assert_eq!(seq(&stream.events(1).await[0]), 11);
}

#[tokio::test]
async fn replay_and_life_join_without_hole_or_double() {
    let server = Server::start();
    let beginning = server.cursor_of_the_beginning().await;
    for _ in 0..100 {
        turn(&server, "k", "w").await;
    }
    let mut stream = Stream::open(&server, &format!("after={beginning}")).await;
    let working = async {
        for _ in 0..100 {
            turn(&server, "k", "w").await;
        }
    };
    let (events, ()) = tokio::join!(stream.events(400), working);
    for (at, (_, _, event)) in events.iter().enumerate() {
        assert_eq!(event["data"]["seq"], at as u64 + 1);
    }
}

#[tokio::test]
async fn a_cursor_of_another_store_is_answered_with_a_reset() {
    let server = Server::start();
    turn(&server, "k", "w").await;
    let mut stream = Stream::open(&server, "after=ffffffff-3-0").await;
    let (id, kind, data) = stream.event().await.expect("a reset");
    assert_eq!(kind, "reset");
    assert_eq!(data["cursor"], id);
    server.acquire("k", "w", 60_000).await;
    assert_eq!(stream.event().await.expect("life").2["data"]["seq"], 3);
    let page = server.get("/v1/events?format=json&after=ffffffff-3-0").await.ok();
    assert_eq!(page["reset"], true);
    assert!(page["next"].as_str().expect("a cursor").len() > 3);
}

#[tokio::test]
async fn a_cursor_that_this_store_never_gave_is_answered_with_a_reset() {
    let server = Server::start();
    turn(&server, "k", "w").await;
    let beginning = server.cursor_of_the_beginning().await;
    let ahead = beginning.replace("-0-0", "-999999-0");
    let page = server.get(&format!("/v1/events?format=json&after={ahead}")).await.ok();
    assert_eq!(page["reset"], true, "or else what happens now would be skipped in silence");
    let mut stream = Stream::open(&server, &format!("after={ahead}")).await;
    assert_eq!(stream.event().await.expect("a reset").1, "reset");
    server.acquire("k", "w", 60_000).await;
    assert_eq!(stream.event().await.expect("life").2["data"]["seq"], 3);
}

#[tokio::test]
async fn what_is_no_longer_kept_is_announced_never_skipped() {
    // The smallest log: the history of the beginning is soon compacted away.
    let small = ["store.embedded.segment_size=64KiB", "store.embedded.min_log_size=64KiB"];
    let server = Server::with(&small);
    let beginning = server.cursor_of_the_beginning().await;
    server.until_compacted_away(&beginning).await;
    let mut stream = Stream::open(&server, &format!("after={beginning}")).await;
    let (id, kind, data) = stream.event().await.expect("a reset");
    assert_eq!((kind.as_str(), &data["cursor"]), ("reset", &json!(id)));
    let seq = server.acquire("k", "w", 60_000).await;
    let (_, _, event) = stream.event().await.expect("life");
    assert_eq!(event["data"]["token"], seq.token);
}

#[tokio::test]
async fn filters_choose_what_is_sent() {
    let server = Server::start();
    let mut prefix = Stream::open(&server, "prefix=a%2F").await;
    let mut owner = Stream::open(&server, "owner=w2").await;
    let mut types = Stream::open(&server, "types=released,expired").await;
    turn(&server, "a/1", "w1").await;
    turn(&server, "b/1", "w2").await;
    turn(&server, "a/2", "w2").await;
    let said = |events: Vec<(String, String, Value)>| -> Vec<(String, String)> {
        let pair = |(_, kind, event): (String, String, Value)| {
            (event["subject"].as_str().expect("key").to_owned(), kind)
        };
        events.into_iter().map(pair).collect()
    };
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(key, kind)| ((*key).to_owned(), (*kind).to_owned())).collect()
    };
    let a = [("a/1", "granted"), ("a/1", "released"), ("a/2", "granted"), ("a/2", "released")];
    assert_eq!(said(prefix.events(4).await), pairs(&a));
    let w2 = [("b/1", "granted"), ("b/1", "released"), ("a/2", "granted"), ("a/2", "released")];
    assert_eq!(said(owner.events(4).await), pairs(&w2));
    let ends = [("a/1", "released"), ("b/1", "released"), ("a/2", "released")];
    assert_eq!(said(types.events(3).await), pairs(&ends));
    let beginning = server.cursor_of_the_beginning().await;
    let poll = async |filter: &str| {
        let path = format!("/v1/events?format=json&after={beginning}&{filter}");
        server.get(&path).await.ok()["events"].as_array().expect("events").len()
    };
    assert_eq!(poll("pool=default").await, 6);
    server.get("/v1/events?format=json&pool=other").await.bad_field("pool");
    assert_eq!(poll("types=granted").await, 3);
    assert_eq!(poll("types=session-ended,fenced").await, 0);
}

#[tokio::test]
async fn a_paced_stream_brings_all_events_in_few_deliveries() {
    const PACE_MS: u64 = 200;
    let server = Server::start();
    let mut stream = Stream::open(&server, &format!("pace_ms={PACE_MS}")).await;
    let began = std::time::Instant::now();
    for n in 0..100 {
        turn(&server, &format!("paced/{}", n % 7), "w").await;
    }
    let events = stream.events(200).await;
    let most = began.elapsed().as_millis() as u64 / PACE_MS + 3;
    assert!(stream.chunks as u64 <= most, "{} deliveries, {most} at most", stream.chunks);
    let kinds: Vec<_> = events.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["granted", "released"].repeat(100));
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_named() {
    let server = Server::start();
    let get = async |query: &str| server.get(&format!("/v1/events?{query}")).await;
    get("types=gone").await.bad_field("types");
    get("after=x").await.bad_field("after");
    get("after=a-b-c").await.bad_field("after");
    get("format=xml").await.bad_field("format");
    get("format=json&wait_ms=60001").await.bad_field("wait_ms");
    get("pace_ms=501").await.bad_field("pace_ms");
    get("format=json&wait_ms=x").await.malformed();
    get("colour=red").await.malformed();
}

#[tokio::test]
async fn a_silent_stream_carries_a_comment_every_five_seconds_at_least() {
    let server = Server::start();
    let mut stream = Stream::open(&server, "prefix=none").await;
    // The first may be a greeting; from then on the gaps count.
    let mut last = std::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(stream.next().await, Some(Event::Comment));
        assert!(last.elapsed() < ms(5000), "{:?}", last.elapsed());
        last = std::time::Instant::now();
    }
}

#[tokio::test]
async fn a_stream_whose_events_are_all_filtered_out_carries_comments_too() {
    let server = Server::with(&["events.heartbeat_interval=500ms"]);
    let mut stream = Stream::open(&server, "prefix=none").await;
    let busy = async {
        loop {
            turn(&server, "k", "w").await;
        }
    };
    let comments = async {
        for _ in 0..4 {
            assert_eq!(stream.next().await, Some(Event::Comment));
        }
    };
    tokio::select! {
        () = soon("four comments", comments) => {}
        () = busy => {}
    }
}

#[tokio::test]
async fn a_long_poll_answers_with_the_first_that_comes() {
    let server = Server::start();
    let page = server.get("/v1/events?format=json").await.ok();
    assert_eq!((&page["events"], &page["reset"]), (&json!([]), &json!(false)));
    let next = page["next"].as_str().expect("a cursor");
    let path = format!("/v1/events?format=json&after={next}&wait_ms=15000");
    let mut connection = Connection::open(server.addr).await;
    connection.send("GET", &path, &[], b"").await;
    eventually("it listens", async || server.metric("tenure_event_subscribers").await == 1.0).await;
    turn(&server, "k", "w").await;
    let page = soon("the page", connection.receive()).await.ok();
    let events = page["events"].as_array().expect("events");
    assert_eq!(kinds(events)[0], "granted");
    let next = page["next"].as_str().expect("a cursor");
    assert_eq!(next, events.last().expect("one")["id"]);
    let asked = std::time::Instant::now();
    let nothing = server
        .get(&format!("{}&after={}&wait_ms=200", "/v1/events?format=json&prefix=x", next))
        .await
        .ok();
    assert!(asked.elapsed() >= ms(200));
    assert_eq!(nothing["events"], json!([]));
    eventually("nobody listens", async || server.metric("tenure_event_subscribers").await == 0.0)
        .await;
}

#[tokio::test]
async fn subscribers_are_bounded_and_leave_when_they_hang_up() {
    let server = Server::with(&["limits.subscribers=3"]);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(Stream::open(&server, "").await);
    }
    let refused = server.get("/v1/events").await.problem(429, "too-many-subscribers");
    assert_eq!(refused["retryable"], true);
    streams.pop();
    let closed = std::time::Instant::now();
    eventually("there is room", async || server.metric("tenure_event_subscribers").await == 2.0)
        .await;
    assert!(closed.elapsed() < ms(1000), "{:?}", closed.elapsed());
    Stream::open(&server, "").await;
}
