//! Disks that are full, and one that fails, under a real coordinator: what was acknowledged stays, what cannot be
//! written is refused and says so, and service goes on by itself where it can.
//!
//! They mount file systems of their own, which takes the right to do so.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::support::harness::{Connection, Grant, Server, eventually};

const SETTINGS: [&str; 3] = [
    "store.embedded.segment_size=64KiB",
    "store.embedded.min_log_size=128KiB",
    "telemetry.log=warn",
];
const LOADERS: usize = 4;

fn run(program: &str, arguments: &[&str]) {
    let ran = Command::new(program).args(arguments).output();
    let ran = ran.unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{program} {arguments:?} failed; this test has to mount file systems (run it as root): {said}"
    );
}

/// A file system of its own; gone with this, however the test ends.
pub struct Mount {
    pub at: PathBuf,
    _home: tempfile::TempDir,
}

impl Mount {
    pub fn tmpfs(size: &str) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let at = home.path().to_owned();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", text(&at)]);
        Self { at, _home: home }
    }

    /// ext4 on a file.
    fn image(image: &Path) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let at = home.path().to_owned();
        run("mount", &["-o", "loop", text(image), text(&at)]);
        Self { at, _home: home }
    }

    /// Fills it, but for so much.
    pub fn fill(&self, but: usize) -> PathBuf {
        let path = self.at.join("ballast");
        let mut file = fs::File::create(&path).expect("a file");
        let mut written = 0;
        for size in [64 << 10, 4 << 10] {
            while file.write(&vec![7; size]).is_ok_and(|took| took > 0) {
                written += size;
            }
        }
        file.set_len(written.saturating_sub(but) as u64).expect("a shorter file");
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Grants, until one is refused; and the code of the refusal.
async fn take_until_refused(server: &Server, name: &str) -> (Vec<Grant>, String) {
    let mut connection = Connection::open(server.addr).await;
    let mut grants = Vec::new();
    loop {
        let n = grants.len();
        let body = json!({ "key": format!("{name}/{n}"), "owner": "w", "ttl_ms": 600_000 });
        let reply = connection.post("/v1/acquire", &body).await;
        if reply.status != 200 {
            return (grants, reply.json()["code"].as_str().expect("a code").to_owned());
        }
        grants.push(Grant::of(&reply.ok()));
    }
}

async fn load(server: &Server, round: &str, code: &str) -> Vec<Grant> {
    let names: Vec<_> = (0..LOADERS).map(|n| format!("{round}-{n}")).collect();
    let loaders = names.iter().map(|name| take_until_refused(server, name));
    let mut all = Vec::new();
    for (grants, why) in futures_util::future::join_all(loaders).await {
        assert_eq!(why, code);
        all.extend(grants);
    }
    all
}

/// All that was acknowledged is there, and still its owner's.
async fn check(server: &Server, grants: &[Grant]) {
    let mut connection = Connection::open(server.addr).await;
    for grant in grants {
        let reply = connection.post("/v1/heartbeat", &grant.proof()).await;
        assert_eq!(reply.ok()["token"], grant.token, "{grant:?}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room() {
    let mount = Mount::tmpfs("2m");
    let dir = mount.at.join("data");
    let server = Server::at(&dir, &SETTINGS);
    let ballast = mount.fill(150 << 10);
    let mut grants = load(&server, "a", "store-full").await;
    assert!(grants.len() > 100, "{}", grants.len());
    check(&server, &grants).await;
    assert_eq!(server.get("/livez").await.status, 200);
    let body = json!({ "key": "another", "owner": "w", "ttl_ms": 600_000 });
    let refused = server.post("/v1/acquire", &body).await.problem(507, "store-full");
    assert_eq!(refused["retryable"], true);

    // A start on the full disk, after a crash.
    let server = server.kill().restart();
    check(&server, &grants).await;
    server.post("/v1/acquire", &body).await.problem(507, "store-full");

    fs::remove_file(ballast).expect("it is there");
    eventually("it goes on by itself", async || {
        server.post("/v1/acquire", &body).await.status == 200
    })
    .await;
    let more = server.acquire("more", "w", 600_000).await;
    grants.push(more);
    let server = server.kill().restart();
    check(&server, &grants).await;
    let events = server.history().await;
    assert_eq!(events.len(), grants.len() + 1, "one for each grant that was told, and `another`");
    println!("a full disk: {} grants, none lost", grants.len());
}

#[test]
fn a_new_store_on_a_full_disk_says_what_to_do() {
    let mount = Mount::tmpfs("64k");
    let dir = mount.at.join("data");
    fs::create_dir(&dir).expect("a directory");
    mount.fill(0);
    let refused = Server::refuse(&dir, &SETTINGS);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.said);
    assert!(refused.said.contains("make room on the disk and start again"), "{}", refused.said);
}

/// A thin disk runs out of room under the file system, which cannot know: syncs fail.
#[tokio::test]
async fn a_disk_that_fails_syncs_stops_the_store_and_loses_nothing() {
    let thin = Mount::tmpfs("32m");
    let image = thin.at.join("image");
    fs::File::create(&image).and_then(|file| file.set_len(24 << 20)).expect("an image");
    run("mkfs.ext4", &["-q", "-O", "^has_journal", text(&image)]);
    let mount = Mount::image(&image);
    let dir = mount.at.join("data");
    let server = Server::at(&dir, &SETTINGS);
    let mut grants = Vec::new();
    for n in 0..200 {
        grants.push(server.acquire(&format!("k{n}"), "w", 600_000).await);
    }
    run("sync", &["-f", text(&dir)]);
    let keep = tempfile::tempdir().expect("a directory");
    let kept = keep.path().join("image");
    fs::copy(&image, &kept).expect("a copy");

    fs::OpenOptions::new()
        .write(true)
        .open(&image)
        .expect("it is there")
        .set_len(1 << 16)
        .expect("");
    thin.fill(0);
    let body = json!({ "key": "another", "owner": "w", "ttl_ms": 1_000 });
    let failed = server.post("/v1/acquire", &body).await;
    failed.problem(503, "store-unavailable");
    let body = json!({ "key": "one more", "owner": "w", "ttl_ms": 1_000 });
    let refused = server.post("/v1/acquire", &body).await;
    let said = refused.problem(503, "store-unavailable");
    assert!(said["detail"].as_str().expect("detail").contains("restart"), "{said}");
    assert_eq!(server.get("/readyz").await.status, 503);
    let stopped = server.kill();
    assert!(!stopped.said.contains("panicked"), "{}", stopped.said);
    drop(mount);
    drop(thin);

    let mount = Mount::image(&kept);
    let server = Server::at(&mount.at.join("data"), &SETTINGS);
    check(&server, &grants).await;
    println!("a disk that failed: {} grants, none lost", grants.len());
}
