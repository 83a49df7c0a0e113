//! What a principal sends by a stream is charged to its rate, whatever it is.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::rights::open;
use crate::{
    access::cast::{Guarded, all_of, principal},
    support::harness::{Grant, Talk, eventually},
};

fn limited(name: &str, limit: &str) -> String {
    format!("{}limit = {{ {limit} }}\n", principal(name, &all_of("")))
}

/// Messages with their ids, as texts.
type Text = fn(u64) -> String;

/// What is no call of an operation, or cannot be read.
const OTHERS: [(&str, Text); 6] = [
    ("cancel", |id| json!({ "id": id, "op": "cancel", "params": { "call": 7 } }).to_string()),
    ("unwatch", |id| json!({ "id": id, "op": "unwatch" }).to_string()),
    ("an unknown operation", |id| json!({ "id": id, "op": "fly" }).to_string()),
    ("a call that cannot be made", |id| json!({ "id": id, "op": "get_lease" }).to_string()),
    ("a long one that cannot be read", |id| {
        format!(r#"{{"id":{id},"op":"heartbeat","more":[{}1]}}"#, "1,".repeat(2_000))
    }),
    ("one whose id is at its end", |id| {
        format!(r#"{{"params":{{"call":7}},"op":"cancel","id":{id}}}"#)
    }),
];

/// How many of `count` messages are refused for the rate.
async fn refused(talk: &mut Talk, count: u64, message: Text) -> usize {
    for id in 1..=count {
        talk.send_text(message(1_000_000 + id)).await;
    }
    let mut refused = 0;
    for _ in 0..count {
        let answer = talk.message().await.expect("an answer");
        refused += usize::from(answer["body"]["code"] == "rate-limited");
    }
    refused
}

/// Which of the messages above are not charged.
pub async fn free_messages(env: &[(&str, &str)]) -> Vec<&'static str> {
    let guarded = Guarded::configured(&[limited("slow", "rate = 2")], "", env);
    let mut free = Vec::new();
    for (name, message) in OTHERS {
        let mut talk = open(&guarded, "slow").await;
        if refused(&mut talk, 100, message).await < 80 {
            free.push(name);
        }
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
    free
}

#[tokio::test]
async fn every_message_is_charged() {
    assert_eq!(free_messages(&[]).await, [""; 0]);
}

#[tokio::test]
async fn messages_that_are_not_charged_are_noticed() {
    let env = [("TENURE_TEST_BROKEN_ACCESS", "FreeMessages")];
    assert_eq!(free_messages(&env).await.len(), OTHERS.len());
}

#[tokio::test]
async fn a_stream_of_callers_without_a_principal_is_charged_to_their_address() {
    let server = crate::support::harness::Server::with(&["limits.rate_per_address=5"]);
    for (name, message) in OTHERS {
        let mut talk = Talk::open(server.addr).await;
        let refused = refused(&mut talk, 300, message).await;
        assert!(refused >= 250, "{name}: {refused}");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}

/// What else a holder sends on its stream does not take the rate of its heartbeats.
#[tokio::test]
async fn heartbeats_between_other_messages_have_a_rate_of_their_own() {
    let guarded =
        Guarded::start(&[limited("slow", "rate = 20"), principal("all", &all_of(""))], &[]);
    let mut talk = open(&guarded, "slow").await;
    let acquire = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    let held = Grant::of(&talk.ok("acquire", &acquire).await);
    // What says that it is a heartbeat is charged as one.
    for (_, message) in OTHERS.into_iter().filter(|(name, _)| !name.starts_with("a long one")) {
        assert!(refused(&mut talk, 60, message).await > 30);
        // Members in any order: that of a map that is sorted by name, too.
        let beats: [String; 3] = [
            json!({ "id": 1, "op": "heartbeat", "body": held.proof() }).to_string(),
            format!(r#"{{"body":{},"id":2,"op":"heartbeat"}}"#, held.proof()),
            format!(
                r#"{{"op":"heartbeats","params":{{}},"body":{{"leases":[{}]}},"id":3}}"#,
                held.proof()
            ),
        ];
        for beat in beats {
            talk.send_text(beat).await;
            let answer = talk.message().await.expect("an answer");
            assert_eq!(answer["status"], 200, "{answer}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let metrics = guarded.get("all", "/metrics").await.text();
    let counted =
        metrics.lines().find(|line| line.starts_with("tenure_limited_total{limit=\"rate\"}"));
    let counted: f64 =
        counted.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0.0);
    assert!(counted >= 150.0, "{counted}");
}

/// A batch beyond the rate is refused before it is parsed. Parsed, this one would take the whole time of the test.
#[tokio::test]
async fn a_batch_beyond_the_rate_is_refused_by_its_front() {
    let guarded = Guarded::start(&[limited("slow", "rate = 1")], &[]);
    let mut talk = open(&guarded, "slow").await;
    let nobodys = "0".repeat(32);
    let leases: Vec<Value> =
        (0..2_000).map(|at| json!({ "key": format!("k{at}"), "lease_id": nobodys })).collect();
    let batch = json!({ "leases": leases });
    let first = talk.call("heartbeats", &batch).await;
    assert_eq!(first["status"], 200);
    let second = talk.call("heartbeats", &batch).await;
    assert_eq!((&second["status"], &second["body"]["code"]), (&json!(429), &json!("rate-limited")));
    assert!(second["retry_after"].as_u64().is_some_and(|after| after > 100), "{second}");
}

#[tokio::test]
async fn messages_that_cannot_be_read_end_the_stream_beyond_the_rate() {
    let guarded = Guarded::start(&[limited("slow", "rate = 5")], &[]);
    for text in [r#"{"id":7}"#, r#"{"id":7,"op":"heartbeat","more":1}"#] {
        let mut talk = open(&guarded, "slow").await;
        for _ in 0..40 {
            if talk.try_send(Message::text(text)).await.is_err() {
                break;
            }
        }
        let mut answered = 0;
        let (code, reason) = loop {
            match talk.message().await {
                Ok(answer) => {
                    assert_eq!(answer["status"], 400, "{answer}");
                    answered += 1;
                }
                Err(end) => break end.expect("a reason"),
            }
        };
        assert!((1..30).contains(&answered), "{answered}");
        assert_eq!(code, 1008);
        assert!(reason.contains("beyond the rate"), "{reason}");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}

#[tokio::test]
async fn a_flood_of_pings_or_pongs_ends_the_stream_and_some_do_not() {
    let guarded = Guarded::start(&[principal("all", &all_of(""))], &[]);
    let mut calm = open(&guarded, "all").await;
    for _ in 0..30 {
        calm.send_message(Message::Ping(vec![1].into())).await;
    }
    calm.ok("info", &json!(null)).await;
    for flood in [Message::Ping(vec![1].into()), Message::Pong(vec![1].into())] {
        let mut talk = open(&guarded, "all").await;
        for _ in 0..300 {
            if talk.try_send(flood.clone()).await.is_err() {
                break;
            }
        }
        let (code, reason) = talk.end().await.expect("a reason");
        assert_eq!(code, 1008);
        assert!(reason.contains("10 pings"), "{reason}");
    }
    eventually("one is left", async || {
        let metrics = guarded.get("all", "/metrics").await.text();
        metrics.lines().any(|line| line == "tenure_streams 1")
    })
    .await;
}

/// What is refused costs something too: a stream that sends too much of it is read at a bounded pace.
#[tokio::test]
async fn a_flood_beyond_the_rate_is_read_at_a_bounded_pace() {
    let guarded =
        Guarded::start(&[limited("slow", "rate = 1"), principal("all", &all_of(""))], &[]);
    let mut talk = open(&guarded, "slow").await;
    let many = 8_000;
    let began = std::time::Instant::now();
    let mut sent = 0;
    while sent < many {
        for _ in 0..100 {
            sent += 1;
            talk.send_text(json!({ "id": sent, "op": "unwatch" }).to_string()).await;
        }
        for _ in 0..100 {
            talk.message().await.expect("an answer");
        }
    }
    // 2 000 at once, and as many per second.
    assert!(began.elapsed() > Duration::from_millis(2_500), "{:?}", began.elapsed());
}
