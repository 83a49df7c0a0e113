//! URLs, with a receiver that checks everything by itself.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use tenure::{
    actor::FenceOutcome,
    lease::Token,
    plugin::{FailureKind, FenceOrder},
};

use crate::plugins::kit::*;

/// The examples of the specification, and another.
const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A request as it arrived.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Arrived {
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or_else(|| panic!("{name} in {self:?}"), |(_, value)| value)
    }
}

pub type Requests = Arc<Mutex<Vec<Arrived>>>;

/// A receiver on a port of its own that answers the requests with these statuses, the last forever;
/// status 0 is silence.
pub fn receiver(statuses: &'static [u16]) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/fence?site=a", listener.local_addr().expect("bound"));
    let requests = Requests::default();
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let seen = seen.clone();
            std::thread::spawn(move || serve(stream, &seen, statuses));
        }
    });
    (url, requests)
}

fn serve(stream: std::net::TcpStream, seen: &Requests, statuses: &[u16]) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut stream = stream;
    loop {
        let mut request = Arrived::default();
        if reader.read_line(&mut request.line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            request.headers.push((name.to_owned(), value.to_owned()));
        }
        let length = request.header("content-length").parse().expect("a length");
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).expect("a body");
        let number = {
            let mut seen = seen.lock().expect("a list");
            seen.push(request);
            seen.len() - 1
        };
        let status = statuses[number.min(statuses.len() - 1)];
        if status == 0 {
            continue;
        }
        let said = format!("answer {number}");
        let more = if status == 302 { "location: http://127.0.0.1:1/\r\n" } else { "" };
        let answer =
            format!("HTTP/1.1 {status} X\r\n{more}content-length: {}\r\n\r\n{said}", said.len());
        stream.write_all(answer.as_bytes()).expect("sent");
    }
}

pub fn section(url: &str, secrets: &[&str]) -> String {
    format!("kind = \"webhook\"\nurl = \"{url}\"\nsecrets = {secrets:?}\n")
}

/// HMAC-SHA256 by openssl, which shares no line with the plugin.
fn hmac(secret: &str, message: &[u8]) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a prefix")).expect("base64");
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut openssl = std::process::Command::new("openssl")
        .args(["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{hex}"), "-binary"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("openssl; `make debian` fetches it");
    openssl.stdin.take().expect("a pipe").write_all(message).expect("written");
    let output = openssl.wait_with_output().expect("a digest");
    assert!(output.status.success());
    STANDARD.encode(output.stdout)
}

/// The signatures that are on a request, and those that the secrets make.
fn signatures(request: &Arrived, secrets: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut message = [request.header("webhook-id"), request.header("webhook-timestamp"), ""]
        .join(".")
        .into_bytes();
    message.extend_from_slice(&request.body);
    let on_it = request.header("webhook-signature").split(' ').map(str::to_owned).collect();
    let made = secrets.iter().map(|secret| format!("v1,{}", hmac(secret, &message))).collect();
    (on_it, made)
}

#[test]
fn the_reference_of_the_specification_is_met() {
    let body = br#"{"test": 2432232314}"#;
    let message = [b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.", &body[..]].concat();
    assert_eq!(hmac(OLD, &message), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[tokio::test]
async fn a_receiver_can_check_who_sent_it_with_either_of_two_secrets() {
    let (url, requests) = receiver(&[204]);
    let plugin = built(&section(&url, &[NEW, OLD]));
    assert_eq!(plugin.fence(order("jobs/ü", 42)).await, Ok(()));
    let request = requests.lock().expect("a list").pop().expect("a request");
    assert_eq!(request.line.trim_end(), "POST /fence?site=a HTTP/1.1");
    assert_eq!(request.header("content-type"), "application/cloudevents+json");
    let (on_it, made) = signatures(&request, &[NEW, OLD]);
    assert_eq!(on_it, made, "the newest first");
    let timestamp: u64 = request.header("webhook-timestamp").parse().expect("seconds");
    assert!(clock().wall_ms().abs_diff(timestamp * 1000) < 60_000);

    let event: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "io.tenure.lease.fencing");
    assert_eq!(event["source"], "/tenure/plugins/p");
    assert_eq!(event["subject"], "jobs/ü");
    assert_eq!(event["id"], request.header("webhook-id"));
    assert!(event["time"].as_str().expect("a time").ends_with('Z'));
    assert_eq!((&event["data"]["token"], &event["data"]["attempt"]), (&42.into(), &2.into()));
}

#[tokio::test]
async fn a_fence_that_is_a_part_of_a_trace_says_so() {
    let (url, requests) = receiver(&[204]);
    let plugin = built(&section(&url, &[NEW]));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = FenceOrder { traceparent: Some(parent.into()), ..order("k", 7) };
    assert_eq!(plugin.fence(traced).await, Ok(()));
    assert_eq!(plugin.fence(order("k", 8)).await, Ok(()));
    let requests = requests.lock().expect("a list").clone();
    assert_eq!(requests[0].header("traceparent"), parent);
    let named = |(name, _): &(String, String)| name.eq_ignore_ascii_case("traceparent");
    assert!(!requests[1].headers.iter().any(named), "no trace");
}

#[test]
fn tries_of_one_order_share_an_id_and_other_orders_have_their_own() {
    system(async {
        let (url, requests) = receiver(&[503, 0, 429, 200]);
        let plugin = built(&section(&url, &[NEW]));
        let limits = limits(Duration::from_millis(500), 5, 4);
        let (plugins, _) = plugins(vec![("p".into(), plugin, limits)]);
        assert_eq!(ask(&plugins, "p", PATIENCE).await, FenceOutcome::Confirmed);
        let other = FenceOrder { token: Token(8), ..order("k", 7) };
        assert_eq!(ask_for(&plugins, "p", other, PATIENCE).await, FenceOutcome::Confirmed);
        let requests = requests.lock().expect("a list").clone();
        let ids: Vec<&str> = requests.iter().map(|r| r.header("webhook-id")).collect();
        assert_eq!(ids.len(), 5, "503, silence, 429, 200; and 200");
        assert!(ids[..4].iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_ne!(ids[3], ids[4]);
        for request in &requests {
            let (on_it, made) = signatures(request, &[NEW]);
            assert_eq!(on_it, made);
        }
    });
}

#[test]
fn a_refusal_that_will_not_change_is_not_tried_again() {
    system(async {
        for (statuses, tries) in [(&[404][..], 1), (&[302], 1), (&[500], 3), (&[408], 3)] {
            let (url, requests) = receiver(statuses);
            let plugin = built(&section(&url, &[NEW]));
            let (plugins, _) =
                plugins(vec![("p".into(), plugin, limits(Duration::from_secs(5), 2, 1))]);
            let outcome = ask(&plugins, "p", PATIENCE).await;
            let FenceOutcome::Failed(why) = outcome else { panic!("{outcome:?}") };
            let plural = if tries == 1 { "try" } else { "tries" };
            assert_eq!(why, format!("after {tries} {plural}: HTTP status {}", statuses[0]));
            assert_eq!(requests.lock().expect("a list").len(), tries, "{statuses:?}");
        }
        let nobody = built(&section("http://127.0.0.1:1/", &[NEW]));
        let why = nobody.fence(order("k", 1)).await.unwrap_err();
        assert!(why.kind == FailureKind::Refused && !why.permanent, "{why}");
    });
}
