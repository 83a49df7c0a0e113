//! The audit log of the real program: who was refused, what administrators did, and that nobody changes it unseen.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    crash::full::Mount,
    support::harness::{Connection, Server, eventually, process::Server as Process},
};

/// A log in a directory of its own.
struct Log {
    _dir: Option<tempfile::TempDir>,
    path: PathBuf,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { path: dir.path().join("audit.log"), _dir: Some(dir) }
    }

    fn serve(&self) -> Server {
        self.serve_with("64MiB")
    }

    fn serve_with(&self, max_size: &str) -> Server {
        let file = format!("audit.file={}", self.path.display());
        Server::with(&[&file, &format!("audit.max_size={max_size}"), "audit.keep=3"])
    }

    /// Its files, from the oldest.
    fn files(&self) -> Vec<PathBuf> {
        let older = (1..=3).rev().map(|n| PathBuf::from(format!("{}.{n}", self.path.display())));
        older.chain([self.path.clone()]).filter(|path| path.exists()).collect()
    }

    fn text(&self) -> String {
        let read = |path| fs::read_to_string(path).expect("UTF-8");
        self.files().into_iter().map(read).collect()
    }

    fn lines(&self) -> Vec<Value> {
        let text = self.text();
        // The last line may be written just now.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The lines, once there are as many.
    async fn until(&self, count: usize) -> Vec<Value> {
        eventually("the lines are written", async || self.lines().len() >= count).await;
        let lines = self.lines();
        assert_eq!(lines.len(), count, "{lines:#?}");
        lines
    }

    /// Exit code, stdout and stderr of a check.
    fn verify(&self, more: &[&str]) -> (Option<i32>, Value, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["audit", "verify", "--output", "json"]).args(self.files()).args(more);
        let ended = command.output().expect("it runs");
        let said = String::from_utf8(ended.stderr).expect("UTF-8");
        (ended.status.code(), serde_json::from_slice(&ended.stdout).unwrap_or_default(), said)
    }

    fn is_sound(&self) -> Value {
        let (code, found, said) = self.verify(&[]);
        assert_eq!(code, Some(0), "{said}");
        found
    }

    /// A check fails at this line of this file.
    fn is_broken_at(&self, path: &Path, line: usize) {
        let (code, _, said) = self.verify(&[]);
        assert_eq!(code, Some(65), "{said}");
        assert!(said.contains(&format!("{}:{line}: ", path.display())), "{said}");
    }
}

fn of<'l>(lines: &'l [Value], event: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Calls that are refused before they reach a handler.
async fn refused_calls(server: &Server, beat: &str) {
    let host = server.addr.to_string();
    let call = async |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        Connection::open(server.addr).await.call(method, path, headers, body).await
    };
    let host = ("Host", host.as_str());
    let foreign = [host, ("Origin", "https://evil.example"), ("Content-Type", "text/plain")];
    call("POST", "/v1/admin/revoke", &foreign, b"{}").await.problem(403, "foreign-origin");
    call("POST", beat, &foreign, b"{}").await.problem(403, "foreign-origin");
    let unknown = [("Host", "evil.example")];
    call("GET", "/v1/leases?prefix=x", &unknown, b"").await.problem(421, "unknown-host");
    let forged = [host, ("x-tenure-forwarded-for", "10.0.0.1 (alice)")];
    call("GET", "/v1/leases/k", &forged, b"").await.problem(400, "forged-header");
    let page = [host, ("User-Agent", "Mozilla/5.0"), ("Content-Type", "text/plain")];
    call("POST", "/v1/acquire", &page, b"{}").await.problem(415, "not-json");
}

/// Orders of an administrator, and reads of everything.
async fn orders_and_reads(server: &Server) {
    for (path, body) in [
        // Whoever encodes a path in another way is served, and recorded, all the same.
        ("%70in", json!({ "key": "k", "by": "ops" })),
        ("unpin", json!({ "key": "k", "by": "ops" })),
        ("fence-skip", json!({ "key": "k", "reason": "r" })),
        ("revoke", json!({ "key": "k", "reason": "r", "immediately": true })),
        ("revoke", json!({ "key": "k" })),
        ("drain", json!({ "owner": "w" })),
        ("forget", json!({ "prefix": "jobs/", "reason": "r" })),
        (
            "pool",
            json!({ "pool": "default", "action": "cordon", "owner": "w", "for_ms": 60_000, "reason": "repair" }),
        ),
    ] {
        server.post(&format!("/v1/admin/{path}"), &body).await;
    }
    for path in ["/v1/lease%73?prefix=k", "/v1/sessions", "/v1/nodes", "/v1/pools"] {
        server.get(path).await.ok();
    }
    let mut stream = Connection::open(server.addr).await;
    stream.send("GET", "/v1/events", &[], b"").await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
}

#[tokio::test]
async fn refusals_orders_and_reads_of_everything_are_recorded_and_nothing_secret() {
    let log = Log::new();
    let server = log.serve();
    let grant = server.acquire("k", "w", 60_000).await;
    let session = json!({ "owner": "w", "ttl_ms": 60_000 });
    let session = server.post("/v1/sessions", &session).await;
    let session = session.json()["id"].as_str().expect("an id").to_owned();
    let beat = format!("/v1/sessions/{session}/heartbeat");
    server.post(&beat, &json!({})).await.ok();

    refused_calls(&server, &beat).await;
    orders_and_reads(&server).await;
    let lines = log.until(18).await;
    let seen: Vec<_> = of(&lines, "refused")
        .iter()
        .map(|line| (line["status"].as_u64(), line["code"].as_str(), line["path"].as_str()))
        .collect();
    let expected = [
        (403, "foreign-origin", "/v1/admin/revoke"),
        (403, "foreign-origin", "/v1/sessions/{id}/heartbeat"),
        (421, "unknown-host", "/v1/leases"),
        (400, "forged-header", "/v1/leases/k"),
        (415, "not-json", "/v1/acquire"),
    ];
    assert_eq!(seen, expected.map(|(status, code, path)| (Some(status), Some(code), Some(path))));
    let seen: Vec<_> = of(&lines, "change")
        .iter()
        .map(|line| {
            let subject =
                ["key", "prefix", "owner", "pool"].iter().find_map(|name| line[name].as_str());
            (line["verb"].as_str(), subject, line["status"].as_u64(), line["code"].as_str())
        })
        .collect();
    let expected = [
        ("pin", Some("k"), 200, None),
        ("unpin", Some("k"), 200, None),
        ("fence-skip", Some("k"), 409, Some("not-fencing")),
        ("revoke", Some("k"), 200, None),
        ("revoke", None, 400, Some("malformed-request")),
        ("drain", Some("w"), 200, None),
        ("forget", Some("jobs/"), 200, None),
        ("order", Some("default"), 200, None),
    ];
    assert_eq!(
        seen,
        expected.map(|(verb, subject, status, code)| (Some(verb), subject, Some(status), code))
    );
    let orders: Vec<_> = of(&lines, "change").iter().map(|line| line["action"].as_str()).collect();
    assert_eq!(orders.last(), Some(&Some("cordon w for 60000 ms")));
    let reasons: Vec<_> = of(&lines, "change").iter().map(|line| line["reason"].as_str()).collect();
    assert_eq!(reasons[2..], [Some("r"), Some("r"), None, None, Some("r"), Some("repair")]);
    let seen: Vec<_> = of(&lines, "read").iter().map(|line| line["path"].as_str()).collect();
    let expected = ["/v1/leases", "/v1/sessions", "/v1/nodes", "/v1/pools", "/v1/events"];
    assert_eq!(seen, expected.map(Some));
    for line in &lines {
        assert!(line["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line}");
        assert_eq!((&line["principal"], &line["forwarded_by"]), (&json!(null), &json!(null)));
    }
    let text = fs::read_to_string(&log.path).expect("the log");
    let lease_id = grant.proof()["lease_id"].as_str().expect("an id").to_owned();
    assert!(!text.contains(&lease_id) && !text.contains(&session), "{text}");
    assert_eq!(log.is_sound()["lines"], 18);
}

#[tokio::test]
async fn what_was_cut_edited_swapped_or_removed_is_found() {
    let log = Log::new();
    let server = log.serve_with("64KiB");
    let mut connection = Connection::open(server.addr).await;
    for _ in 0..300 {
        connection.call("GET", "/v1/leases", &[], b"").await.ok();
    }
    server.signal(Signal::TERM);
    let said = server.wait().said.clone();
    let found = log.is_sound();
    assert_eq!((&found["lines"], &found["first"]), (&json!(300), &json!(1)));
    let head = found["head"].as_str().expect("a head");
    assert!(said.contains("audit log head") && said.contains(head), "{said}");
    assert_eq!(log.verify(&["--head", head]).0, Some(0));

    let [older, last] = &log.files()[..] else { panic!("{:?}", log.files()) };
    for path in [older, last] {
        let whole = fs::read_to_string(path).expect("UTF-8");
        let lines: Vec<&str> = whole.lines().collect();
        let put = |lines: &[&str]| fs::write(path, lines.join("\n") + "\n").expect("written");
        let edited = lines[4].replace("\"status\":200", "\"status\":403");
        put(&[&lines[..4], &[&edited], &lines[5..]].concat());
        log.is_broken_at(path, 6);
        put(&[&lines[..4], &[lines[5], lines[4]], &lines[6..]].concat());
        log.is_broken_at(path, 5);
        put(&[&lines[..4], &lines[5..]].concat());
        log.is_broken_at(path, 5);
        fs::write(path, &whole[..whole.len() - 30]).expect("written");
        log.is_broken_at(path, lines.len());
        fs::write(path, &whole).expect("written");
    }
    // A tail that was cut off at the end of a line shows beside the digest that was logged.
    let whole = fs::read_to_string(last).expect("UTF-8");
    let lines: Vec<&str> = whole.lines().collect();
    fs::write(last, lines[..lines.len() - 3].join("\n") + "\n").expect("written");
    assert_eq!(log.is_sound()["lines"], 297);
    let (code, _, said) = log.verify(&["--head", head]);
    assert!(code == Some(65) && said.contains("the end was cut off"), "{said}");
    fs::remove_file(last).expect("removed");
    assert_eq!(log.verify(&["--head", head]).0, Some(65), "a whole file is missing");
    assert_eq!(log.verify(&["--head", "300"]).0, Some(64), "no digest");
}

#[tokio::test]
async fn kill_9_in_the_midst_leaves_a_chain_that_goes_on() {
    let log = Log::new();
    let mut server = log.serve();
    for round in 1..=3 {
        let addr = server.addr;
        let load = tokio::spawn(async move {
            let mut connection = Connection::open(addr).await;
            loop {
                connection.send("GET", "/v1/leases", &[], b"").await;
                if connection.try_receive().await.is_err() {
                    return;
                }
            }
        });
        let before = log.lines().len();
        eventually("calls are recorded", async || log.lines().len() >= before + 20).await;
        let stopped = server.kill();
        load.abort();
        // What a crash of the machine would leave too.
        let mut text = fs::read(&log.path).expect("the log");
        let torn = text.len().saturating_sub(40 * round);
        text.truncate(torn);
        fs::write(&log.path, &text).expect("written");
        server = stopped.restart();
        server.get("/v1/nodes").await.ok();
        eventually("it goes on", async || {
            log.text().matches("\"event\":\"torn\"").count() == round
        })
        .await;
    }
    drop(server);
    let found = log.is_sound();
    assert!(found["torn"].as_u64() >= Some(3), "{found}");
}

#[tokio::test]
async fn a_full_disk_costs_lines_that_are_counted_and_no_call() {
    let mount = Mount::tmpfs("256k");
    let log = Log { path: mount.at.join("audit.log"), _dir: None };
    let server = log.serve();
    let mut connection = Connection::open(server.addr).await;
    connection.call("GET", "/v1/nodes", &[], b"").await.ok();
    log.until(1).await;
    let ballast = mount.fill(0);
    for _ in 0..40 {
        connection.call("GET", "/v1/leases", &[], b"").await.ok();
    }
    server.acquire("k", "w", 60_000).await;
    eventually("lines are lost", async || server.metric("tenure_audit_lost_total").await > 0.0)
        .await;
    eventually("it is said", async || server.said().contains("audit lines are lost")).await;
    fs::remove_file(ballast).expect("room again");
    connection.call("GET", "/v1/pools", &[], b"").await.ok();
    eventually("it goes on", async || {
        log.lines().last().is_some_and(|line| line["path"] == "/v1/pools")
    })
    .await;
    let found = log.is_sound();
    let (lines, lost) = (found["lines"].as_u64(), found["lost"].as_u64());
    assert!(lost > Some(0), "{found}");
    let lost_lines = of(&log.lines(), "lost").len() as u64;
    let calls = lines.zip(lost).map(|(lines, lost)| lines - lost_lines + lost);
    assert_eq!(calls, Some(42), "each call has a line or is counted: {found}");
    assert_eq!(server.metric("tenure_audit_lost_total").await, lost.unwrap_or(0) as f64);
}

#[tokio::test]
async fn a_log_that_cannot_be_continued_keeps_the_coordinator_from_starting() {
    let log = Log::new();
    let file = format!("audit.file={}", log.path.display());
    let server = log.serve();
    let dir = tempfile::tempdir().expect("a directory");
    let ended = Process::refuse(dir.path(), &[&file]);
    assert!(ended.said.contains("is in use"), "{}", ended.said);
    drop(server);
    fs::write(&log.path, "something else\n").expect("written");
    let ended = Process::refuse(dir.path(), &[&file]);
    assert!(ended.said.contains("does not end as an audit log does"), "{}", ended.said);
    assert_eq!(fs::read_to_string(&log.path).expect("it"), "something else\n");
}
