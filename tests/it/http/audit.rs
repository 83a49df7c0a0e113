//! The audit log of the real program: who was refused, what administrators did, and that nobody changes it unseen.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    access::cast::{Guarded, all_of, principal},
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

    /// The file of changes.
    fn changes(&self) -> PathBuf {
        PathBuf::from(format!("{}.changes", self.path.display()))
    }

    /// Its files that have lines, those of changes first, each kind from the oldest.
    fn files(&self) -> Vec<PathBuf> {
        let of = |path: PathBuf| {
            let name = path.display().to_string();
            let older = move |n| PathBuf::from(format!("{name}.{n}"));
            (1..=3).rev().map(older).chain([path])
        };
        let has_lines = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.len() > 0);
        of(self.changes()).chain(of(self.path.clone())).filter(has_lines).collect()
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

/// Removes the files in which coordinators remember the last lines of their logs.
fn remove_heads(dir: &Path) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            remove_heads(&path);
        } else if path.extension().is_some_and(|end| end == "head") {
            fs::remove_file(path).expect("removed");
        }
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
        ("fence-retry", json!({ "key": "k", "reason": "r" })),
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
    let lines = log.until(19).await;
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
        ("fence-retry", Some("k"), 200, None),
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
    assert_eq!(
        reasons[2..],
        [Some("r"), Some("r"), Some("r"), None, None, Some("r"), Some("repair")]
    );
    let seen: Vec<_> = of(&lines, "read").iter().map(|line| line["path"].as_str()).collect();
    let expected = ["/v1/leases", "/v1/sessions", "/v1/nodes", "/v1/pools", "/v1/events"];
    assert_eq!(seen, expected.map(Some));
    for line in &lines {
        assert!(line["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line}");
        assert_eq!((&line["principal"], &line["forwarded_by"]), (&json!(null), &json!(null)));
    }
    let text = log.text();
    let lease_id = grant.proof()["lease_id"].as_str().expect("an id").to_owned();
    assert!(!text.contains(&lease_id) && !text.contains(&session), "{text}");
    assert_eq!(log.is_sound()["lines"], 19);
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
        // The machine takes the last second of the file in which the last line is remembered, too.
        remove_heads(stopped.dir());
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

/// An order about each kind of thing, which an administrator may give. `k` is held by `w`.
fn orders() -> Vec<(&'static str, Value)> {
    let pool = |action: &str| json!({ "pool": "default", "action": action, "reason": "r" });
    vec![
        ("pin", json!({ "key": "k", "by": "ops" })),
        ("unpin", json!({ "key": "k", "by": "ops" })),
        ("fence-skip", json!({ "key": "k", "reason": "r" })),
        ("fence-retry", json!({ "key": "k", "reason": "r" })),
        ("revoke", json!({ "key": "k", "reason": "r", "immediately": true })),
        ("revoke", json!({ "key": "k", "reason": "r" })),
        ("drain", json!({ "owner": "w" })),
        ("forget", json!({ "prefix": "free", "reason": "r" })),
        ("access", json!({ "action": "unrevoke", "principal": "x", "reason": "r" })),
        ("pool", pool("freeze")),
    ]
}

#[tokio::test]
async fn an_order_whose_line_cannot_be_kept_is_refused_where_lines_are_required() {
    let mount = Mount::tmpfs("256k");
    let log = Log { path: mount.at.join("audit.log"), _dir: None };
    let file = format!("audit.file={}", log.path.display());
    let server = Server::with(&[&file, "audit.required=true"]);
    let grant = server.acquire("k", "w", 60_000).await;
    let free = server.acquire("free", "w", 60_000).await;
    server.release(&free).await;
    let pin = json!({ "key": "k", "by": "test" });
    server.post("/v1/admin/pin", &pin).await.ok();
    server.post("/v1/admin/unpin", &pin).await.ok();
    let kept = fs::read_to_string(log.changes()).expect("the log");
    let events = |event: &str| kept.matches(&format!(r#""event":"{event}""#)).count();
    assert_eq!(events("intent"), 2, "a line is there before the order is carried out: {kept}");
    let document = server.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().expect("paths").keys();
    let all: BTreeSet<&str> = paths.filter_map(|path| path.strip_prefix("/v1/admin/")).collect();
    let orders = orders();
    let tried: BTreeSet<&str> = orders.iter().map(|(path, _)| *path).collect();
    assert_eq!(tried, all, "every order is tried");
    let ballast = mount.fill(0);
    // The last page of the file still has room for some lines.
    let mut room = 0;
    while server.post("/v1/admin/pin", &json!({ "key": "pad", "by": "test" })).await.status == 200 {
        room += 1;
        assert!(room < 100, "the disk is full");
    }
    let before = server.history().await.len();
    for (path, body) in &orders {
        let refused = server.post(&format!("/v1/admin/{path}"), body).await;
        refused.problem(503, "audit-unavailable");
    }
    assert_eq!(server.history().await.len(), before, "nothing was changed");
    let lease = server.lease("k").await;
    assert_eq!((&lease["state"], &lease["owner"]), (&json!("held"), &json!("w")), "{lease}");
    // Other calls are served.
    server.post("/v1/heartbeat", &grant.proof()).await.ok();
    server.acquire("other", "w", 60_000).await;
    fs::remove_file(ballast).expect("room again");
    for (path, body) in &orders {
        let reply = server.post(&format!("/v1/admin/{path}"), body).await;
        assert_ne!(reply.status, 503, "{path}: {}", reply.text());
    }
    eventually("all are written", async || {
        of(&log.lines(), "change")
            .last()
            .is_some_and(|line| line["verb"] == "order" && line["status"] == 200)
    })
    .await;
    let lines = log.lines();
    let carried_out = of(&lines, "change");
    let carried_out: Vec<_> = carried_out.iter().filter(|line| line["status"] != 503).collect();
    assert!(carried_out.len() >= 10, "{carried_out:#?}");
    for line in carried_out {
        let is_its = |intent: &&Value| {
            ["verb", "key", "prefix", "owner", "pool"].iter().all(|name| intent[name] == line[name])
        };
        assert!(of(&lines, "intent").into_iter().any(|intent| is_its(&intent)), "{line}");
    }
    log.is_sound();
}

#[tokio::test]
async fn an_order_is_refused_while_another_file_is_in_the_place_of_the_log() {
    let log = Log::new();
    let file = format!("audit.file={}", log.path.display());
    let server = Server::with(&[&file, "audit.required=true"]);
    server.acquire("k", "w", 60_000).await;
    let pin = json!({ "key": "k", "by": "test" });
    fs::rename(log.changes(), log.path.with_extension("aside")).expect("renamed");
    fs::write(log.changes(), "something else\n").expect("written");
    server.post("/v1/admin/pin", &pin).await.problem(503, "audit-unavailable");
    fs::remove_file(log.changes()).expect("removed");
    server.post("/v1/admin/pin", &pin).await.ok();
    // It needs a file at all.
    let dir = tempfile::tempdir().expect("a directory");
    let ended = Process::refuse(dir.path(), &["audit.required=true"]);
    assert!(ended.said.contains("needs audit.file"), "{}", ended.said);
}

#[tokio::test]
async fn a_log_whose_end_was_cut_off_or_removed_says_so_and_uses_no_number_twice() {
    let log = Log::new();
    let mut server = log.serve();
    let pin = json!({ "key": "k", "by": "ops" });
    server.acquire("k", "w", 60_000).await;
    for _ in 0..3 {
        server.post("/v1/admin/pin", &pin).await.ok();
        server.post("/v1/admin/unpin", &pin).await.ok();
    }
    let mut next = 7;
    for removes in [false, true] {
        server.signal(Signal::TERM);
        let stopped = server.wait();
        let whole = fs::read_to_string(log.changes()).expect("the log");
        let lines: Vec<&str> = whole.lines().collect();
        if removes {
            fs::remove_file(log.changes()).expect("removed");
        } else {
            fs::write(log.changes(), lines[..lines.len() - 3].join("\n") + "\n").expect("cut");
        }
        server = stopped.restart();
        let said = server.said();
        assert!(said.contains("audit log opened"), "{said}");
        assert!(said.contains("the audit log lacks lines that were written"), "{said}");
        assert_eq!(server.metric("tenure_audit_gaps_total").await, 1.0);
        let status = server.get("/v1/status").await.ok();
        let told = status["attention"].as_array().expect("a list");
        assert!(told.iter().any(|entry| entry["kind"] == "audit-gap"), "{status}");
        server.post("/v1/admin/pin", &pin).await.ok();
        eventually("it goes on", async || {
            let text = fs::read_to_string(log.changes()).expect("the log");
            text.contains(r#""event":"gap""#)
                && text.lines().last().is_some_and(|l| l.contains("pin"))
        })
        .await;
        let text = fs::read_to_string(log.changes()).expect("the log");
        let numbers: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .map(|line| line["seq"].as_u64().expect("a number"))
            .collect();
        assert!(numbers.contains(&next) && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        next = numbers.last().expect("a line") + 1;
        let (code, _, said) = log.verify(&[]);
        assert!(code == Some(65) && said.contains("--from"), "{said}");
        if removes {
            let from = numbers[0].to_string();
            assert_eq!(log.verify(&["--from", &from]).0, Some(0));
            assert_eq!(log.verify(&["--from", "1"]).0, Some(65));
        }
    }
}

#[tokio::test]
async fn a_log_whose_last_line_is_not_remembered_says_so() {
    let log = Log::new();
    let server = log.serve();
    let says = "the last lines of the audit log are not known";
    assert!(!server.said().contains(says), "the log is new");
    server.get("/v1/nodes").await.ok();
    log.until(1).await;
    server.signal(Signal::TERM);
    let stopped = server.wait();
    let remove_head = |dir: &Path| {
        let is_head = |path: &PathBuf| path.extension().is_some_and(|found| found == "head");
        let found = fs::read_dir(dir).expect("a directory");
        let heads: Vec<PathBuf> =
            found.map(|entry| entry.expect("an entry").path()).filter(is_head).collect();
        assert_eq!(heads.len(), 1, "{heads:?}");
        fs::remove_file(&heads[0]).expect("removed");
    };
    let is_told = async |server: &Server| {
        let attention = server.get("/v1/status").await.ok()["attention"].clone();
        let shows =
            attention.as_array().expect("entries").iter().any(|it| it["kind"] == "audit-gap");
        assert_eq!(shows, server.said().contains(says), "{attention} {}", server.said());
        shows
    };
    remove_head(stopped.dir());
    let server = stopped.restart();
    assert!(is_told(&server).await);
    server.signal(Signal::TERM);
    let server = server.wait().restart();
    assert!(!is_told(&server).await);
    server.signal(Signal::TERM);
    let stopped = server.wait();
    remove_head(stopped.dir());
    // Of the refusals and reads, only an older file is there.
    fs::rename(&log.path, format!("{}.1", log.path.display())).expect("renamed");
    assert!(is_told(&stopped.restart()).await);
}

#[tokio::test]
async fn a_file_that_is_moved_away_while_it_is_written_is_replaced_within_a_second() {
    let log = Log::new();
    let server = log.serve();
    server.get("/v1/nodes").await.ok();
    log.until(1).await;
    let aside = PathBuf::from(format!("{}.1", log.path.display()));
    fs::rename(&log.path, &aside).expect("renamed");
    eventually("a new file is made", async || log.path.exists()).await;
    server.get("/v1/nodes").await.ok();
    eventually("it goes on", async || log.lines().iter().any(|line| line["seq"] == 3)).await;
    let (code, found, said) = log.verify(&["--from", "1"]);
    assert_eq!((code, &found["lines"], &found["files"]), (Some(0), &json!(3), &json!(2)), "{said}");
    assert_eq!(server.metric("tenure_audit_gaps_total").await, 0.0);
    // A file that is removed is missed, although nothing is written.
    fs::remove_file(&log.path).expect("removed");
    eventually("it is missed", async || server.metric("tenure_audit_gaps_total").await == 1.0)
        .await;
    assert!(server.said().contains("the audit log lacks lines"), "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_flood_of_a_principal_costs_the_line_of_an_order() {
    const ORDERS: usize = 200;
    let log = Log::new();
    let low = r#"{ verb = "check", prefix = "m/" }"#;
    let principals = [principal("admin", &all_of("")), principal("low", low)];
    let file = format!("audit.file={}", log.path.display());
    let guarded = Guarded::start(&principals, &[&file]);
    let addr = guarded.server.addr;
    let one = crate::support::harness::wire::request(
        "POST",
        "/v1/admin/revoke",
        &[("Authorization", "Bearer low")],
        b"{}",
    );
    let many = one.repeat(100);
    let flood = |_| {
        let many = many.clone();
        tokio::spawn(async move {
            let (mut read, mut write) =
                tokio::net::TcpStream::connect(addr).await.expect("a connection").into_split();
            tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
            while tokio::io::AsyncWriteExt::write_all(&mut write, &many).await.is_ok() {}
        })
    };
    let floods: Vec<_> = (0..2).map(flood).collect();
    for n in 0..ORDERS {
        let order = json!({ "key": format!("prod/{n}"), "reason": "CHG", "immediately": true });
        guarded.post("admin", "/v1/admin/revoke", &order).await.problem(409, "not-held");
    }
    floods.iter().for_each(tokio::task::JoinHandle::abort);
    eventually("each order has a line", async || of(&log.lines(), "change").len() == ORDERS).await;
    let lines = log.lines();
    let of_low: Vec<&Value> = lines.iter().filter(|line| line["principal"] == "low").collect();
    let counted: u64 = of_low.iter().filter_map(|line| line["count"].as_u64()).sum();
    assert!(of_low.len() < 5_000, "{} lines of the other one", of_low.len());
    assert!(counted > 1_000, "the rest is counted: {counted}");
    let line = of_low.iter().find(|line| line["count"].is_u64()).expect("one");
    assert!(line["since"].is_string() && line["until"].is_string(), "{line}");
    log.is_sound();
}
