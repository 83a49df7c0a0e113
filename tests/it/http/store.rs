//! A failing store: a directory that cannot be opened, and a disk that is full.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    http::probe,
    support::harness::{Server, eventually},
};

#[tokio::test]
async fn a_second_process_on_the_directory_is_refused_and_harms_nobody() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    let second = Server::refuse(server.dir(), &[]);
    assert!(!second.status.success());
    assert!(second.status.code().is_some(), "no signal");
    let dir = server.dir().display().to_string();
    assert!(second.said.contains(&dir), "{}", second.said);
    assert!(second.said.contains("another process"), "{}", second.said);
    assert!(!second.said.contains("panicked"), "{}", second.said);
    server.post("/v1/heartbeat", &grant.proof()).await.ok();
    server.acquire("k2", "w", 60_000).await;
}

#[tokio::test]
async fn a_directory_of_something_else_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("holiday.jpg"), b"sand").expect("written");
    let refused = Server::refuse(dir.path(), &[]);
    assert!(!refused.status.success());
    assert!(refused.said.contains(&dir.path().display().to_string()), "{}", refused.said);
    assert!(refused.said.contains("holiday.jpg"), "{}", refused.said);
    let left: Vec<_> = fs::read_dir(dir.path()).expect("a directory").collect();
    assert_eq!(left.len(), 1, "nothing was written into it");
}

#[tokio::test]
async fn a_path_that_is_a_file_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    let refused = Server::refuse(&file, &[]);
    assert!(!refused.status.success());
    assert!(refused.said.contains(&file.display().to_string()), "{}", refused.said);
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn a_damaged_log_is_refused_with_file_and_offset() {
    let server = Server::start();
    for n in 0..50 {
        server.acquire(&format!("damaged-key-{n}"), "somebody", 60_000).await;
    }
    let stopped = server.kill();
    // Far before the end: what is there was durable long ago.
    let needle = b"damaged-key-3";
    let mut hit = None;
    for file in files(stopped.dir()) {
        let mut bytes = fs::read(&file).expect("readable");
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            bytes[at] ^= 0x40;
            fs::write(&file, bytes).expect("writable");
            hit = Some(file);
        }
    }
    let file = hit.expect("the log holds the key");
    let refused = Server::refuse(stopped.dir(), &[]);
    assert!(!refused.status.success());
    assert!(refused.said.contains(&file.display().to_string()), "{}", refused.said);
    assert!(refused.said.contains("at byte"), "{}", refused.said);
    assert!(!refused.said.contains("panicked"), "{}", refused.said);
}

#[tokio::test]
async fn the_number_of_keys_is_bounded() {
    let server = Server::with(&["limits.keys=3"]);
    let mut grants = Vec::new();
    for n in 0..3 {
        grants.push(server.acquire(&format!("k{n}"), "w", 60_000).await);
    }
    let body = json!({ "key": "k3", "owner": "w", "ttl_ms": 1000 });
    let full = server.post("/v1/acquire", &body).await.problem(507, "too-many-keys");
    assert_eq!(full["retryable"], false);
    let any = json!({ "keys": ["k3", "k4"], "owner": "w", "ttl_ms": 1000 });
    server.post("/v1/acquire-any", &any).await.problem(507, "too-many-keys");
    // A wait does not turn the store's refusal into contention.
    let waits = json!({ "key": "k3", "owner": "w", "ttl_ms": 1000, "wait_ms": 5000 });
    server.post("/v1/acquire", &waits).await.problem(507, "too-many-keys");
    let any = json!({ "keys": ["k3", "k4"], "owner": "w", "ttl_ms": 1000, "wait_ms": 300 });
    server.post("/v1/acquire-any", &any).await.problem(507, "too-many-keys");
    let pin = json!({ "key": "k3", "by": "ops" });
    server.post("/v1/admin/pin", &pin).await.problem(507, "too-many-keys");
    server.get("/v1/leases/k3").await.problem(404, "unknown-key");
    // Keys that are there go on; the bound says nothing about readiness.
    for grant in &grants {
        server.post("/v1/heartbeat", &grant.proof()).await.ok();
        server.release(grant).await;
    }
    server.acquire("k1", "w2", 60_000).await;
    server.get("/readyz").await.ok();
    // Sessions have a bound of their own, and the answer says which it is.
    for n in 0..3 {
        server.session(&format!("w{n}"), 60_000, json!({})).await;
    }
    let body = json!({ "owner": "w3", "ttl_ms": 1000 });
    let full = server.post("/v1/sessions", &body).await.problem(507, "too-many-keys");
    assert!(full["detail"].as_str().expect("why").contains("3 sessions"), "{full}");
}

/// A file system of so many MiB, unmounted at the end. `None` where this process may not mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn of(mib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let size = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tenure-test"])
            .arg(dir.path())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_stops_writes_alone_and_is_got_over() {
    let disk = SmallDisk::of(24).expect("the right to mount a file system: run it as root");
    let sets = ["store.embedded.segment_size=1MiB", "store.embedded.min_log_size=4MiB"];
    let dir = disk.path().join("store");
    let server = Server::at(&dir, &sets);
    let held = server.acquire("held", "w", 600_000).await;
    let ballast = disk.path().join("ballast");
    let full = fill(&server, &ballast).await;
    assert_eq!(full["retryable"], true);
    // Heartbeats need no write.
    server.post("/v1/heartbeat", &held.proof()).await.ok();
    let unready = server.get("/readyz").await;
    assert_eq!(unready.status, 503);
    let reasons = unready.json()["reasons"].to_string();
    assert!(reasons.len() > 10, "{reasons}");
    let told = server.get("/v1/status").await.ok();
    let first = &told["attention"][0];
    assert_eq!(
        (&first["kind"], &told["severity"]),
        (&json!("store-not-ready"), &json!("critical"))
    );
    assert_eq!(told["store"]["health"], "degraded", "{told}");
    let probed = probe::ready(&format!("http://{}", server.addr), &["--output", "json"]).await;
    assert_eq!(probed.status.code(), Some(75), "{probed:?}");
    let probed: Value = serde_json::from_slice(&probed.stdout).expect("JSON");
    assert_eq!(probed["reasons"].to_string(), reasons);
    server.post("/v1/release", &held.proof()).await.problem(507, "store-full");
    assert_eq!(server.lease("held").await["state"], "held");
    // Room again: it goes on by itself.
    fs::remove_file(&ballast).expect("removed");
    eventually("it is ready", async || server.get("/readyz").await.status == 200).await;
    assert_eq!(server.get("/v1/status").await.ok()["store"]["health"], "ready");
    eventually("writes go on", async || {
        server.post("/v1/release", &held.proof()).await.status == 200
    })
    .await;
    let next = server.acquire("held", "w2", 60_000).await;
    assert!(next.token > held.token);
    // And nothing that was acknowledged is missing after a crash.
    let stopped = server.kill();
    let server = stopped.restart();
    assert_eq!(server.lease("held").await["token"], next.token);
}

/// Takes all the room, and lets the store find out: first for large records, then for small ones.
async fn fill(server: &Server, ballast: &Path) -> Value {
    let mut file = fs::File::create(ballast).expect("created");
    let mut value = "v".repeat(16 * 1024);
    for n in 0_u64..8000 {
        // Whatever the store gave back in the meantime goes too.
        let block = vec![1; 64 * 1024];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
        let body = json!({ "key": format!("fill/{}", n % 600), "owner": "w", "ttl_ms": 600_000,
            "value": value, "reclaim": true });
        let reply = server.post("/v1/acquire", &body).await;
        if reply.status == 507 && value.is_empty() {
            return reply.problem(507, "store-full");
        } else if reply.status == 507 {
            value.clear();
        } else {
            reply.ok();
        }
    }
    panic!("the store found room for all of it");
}
