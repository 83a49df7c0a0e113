//! The access file is followed while a coordinator runs, and one that is not in force shows everywhere.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::cast::{Guarded, all_of, principal, write};
use crate::{
    nodes::pair::Pair,
    support::{clock::eventually, harness::Connection, node::Node},
};

/// Writes a file under another name, and renames it.
fn replace(path: &Path, principals: &[String]) {
    let beside = path.with_extension("new");
    write(&beside, principals);
    fs::rename(beside, path).expect("renamed");
}

impl Guarded {
    async fn attention(&self, kind: &str) -> Option<Value> {
        let status = self.get("admin", "/v1/status").await.ok();
        let all = status["attention"].as_array().expect("a list").clone();
        all.into_iter().find(|one| one["kind"] == kind)
    }

    async fn metric(&self, series: &str) -> f64 {
        let text = self.get("admin", "/metrics").await.text();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("{series}: {text}")).trim().parse().expect("a number")
    }
}

#[tokio::test]
async fn a_removed_principal_is_refused_without_a_signal() {
    let (admin, leaver) = (principal("admin", &all_of("")), principal("leaver", &all_of("")));
    let guarded = Guarded::start(&[admin.clone(), leaver], &[]);
    guarded.get("leaver", "/v1/leases").await.ok();
    replace(&guarded.file, &[admin]);
    eventually("the file is followed", async || {
        guarded.get("leaver", "/v1/leases").await.status == 401
    })
    .await;
    assert!(guarded.server.said().contains("access file reloaded: the files changed"));
    assert!(
        (guarded.metric("tenure_access_reloads_total{outcome=\"applied\"}").await - 1.0).abs()
            < 0.1
    );
    assert!((guarded.metric("tenure_access_generation").await - 2.0).abs() < 0.1);
}

/// As Kubernetes changes a mounted secret.
#[tokio::test]
async fn a_secret_that_is_swapped_behind_a_link_is_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let version = |name: &str, principals: &[String]| {
        fs::create_dir(dir.path().join(name)).expect("a directory");
        write(&dir.path().join(name).join("access.toml"), principals);
    };
    let (admin, leaver) = (principal("admin", &all_of("")), principal("leaver", &all_of("")));
    version("..1", &[admin.clone(), leaver]);
    version("..2", &[admin]);
    symlink("..1", dir.path().join("..data")).expect("a link");
    let file = dir.path().join("access.toml");
    symlink("..data/access.toml", &file).expect("a link");
    let set = format!("auth.file={}", file.display());
    let server = crate::support::harness::Server::with(&[&set]);
    let status = async || {
        let mut connection = Connection::open(server.addr).await;
        super::cast::call(&mut connection, "leaver", "GET", "/v1/leases", &Value::Null).await.status
    };
    assert_eq!(status().await, 200);
    symlink("..2", dir.path().join("..data_tmp")).expect("a link");
    fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).expect("renamed");
    eventually("the file is followed", async || status().await == 401).await;
}

#[tokio::test]
async fn a_refused_access_file_shows_until_it_is_put_right() {
    let (admin, leaver) = (principal("admin", &all_of("")), principal("leaver", &all_of("")));
    let both = [admin.clone(), leaver];
    let guarded = Guarded::start(&both, &[]);
    let refused = async || guarded.metric("tenure_access_reloads_total{outcome=\"refused\"}").await;
    let typo = "[[principal]]\nname = \"typo\"\n".to_owned();
    let odd = admin.replace("owner =", "ovner =");
    let faults: [(&str, &dyn Fn()); 4] = [
        ("principal.ovner", &|| replace(&guarded.file, std::slice::from_ref(&odd))),
        ("no credential", &|| replace(&guarded.file, &[admin.clone(), typo.clone()])),
        ("mode 0666", &|| {
            replace(&guarded.file, std::slice::from_ref(&admin));
            fs::set_permissions(&guarded.file, Permissions::from_mode(0o666)).expect("a mode");
        }),
        ("cannot be read", &|| fs::remove_file(&guarded.file).expect("removed")),
    ];
    for (number, (why, spoil)) in faults.iter().enumerate() {
        let before = refused().await;
        spoil();
        if number % 2 == 0 {
            guarded.server.signal(Signal::HUP);
        }
        eventually("it shows", async || {
            let shown = guarded.attention("access-not-in-force").await;
            shown.is_some_and(|one| one["reason"].as_str().is_some_and(|text| text.contains(why)))
        })
        .await;
        let shown = guarded.attention("access-not-in-force").await.expect("it shows");
        assert_eq!(shown["severity"], "critical", "{shown}");
        assert!(shown["since"].is_string() && shown["help"].is_string(), "{shown}");
        assert!(refused().await > before, "{why}");
        let not_in_force = guarded.metric("tenure_file_not_in_force{file=\"access\"}").await;
        assert!((not_in_force - 1.0).abs() < 0.1, "{why}");
        guarded.get("leaver", "/v1/leases").await.ok();
    }
    let applied = guarded.metric("tenure_access_reloads_total{outcome=\"applied\"}").await;
    assert!(applied.abs() < 0.1, "nothing was applied: {applied}");
    replace(&guarded.file, &both);
    eventually("it is in force", async || guarded.attention("access-not-in-force").await.is_none())
        .await;
    assert!(guarded.metric("tenure_file_not_in_force{file=\"access\"}").await.abs() < 0.1);
}

#[tokio::test]
async fn a_refused_settings_file_and_settings_that_need_a_restart_show() {
    let admin = principal("admin", &all_of(""));
    let guarded = Guarded::configured(&[admin], "", &[]);
    let file = format!("[auth]\nfile = {:?}\n", guarded.file.display().to_string());
    guarded.server.configure(&format!("{file}[limits]\nkeyz = 7\n"));
    guarded.server.signal(Signal::HUP);
    eventually("it shows", async || guarded.attention("settings-not-in-force").await.is_some())
        .await;
    let shown = guarded.attention("settings-not-in-force").await.expect("it shows");
    assert!(shown["reason"].as_str().is_some_and(|text| text.contains("keyz")), "{shown}");
    guarded.server.configure(&format!("{file}[limits]\nkeys = 7\n"));
    guarded.server.signal(Signal::HUP);
    eventually("it shows", async || guarded.attention("restart-needed").await.is_some()).await;
    let shown = guarded.attention("restart-needed").await.expect("it shows");
    assert!(shown["says"].as_str().is_some_and(|text| text.contains("limits.keys")), "{shown}");
    assert_eq!(guarded.attention("settings-not-in-force").await, None);
}

#[tokio::test]
async fn nodes_say_whose_access_file_differs_and_nothing_of_what_is_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let admin = principal("admin", &all_of(""));
    for name in ["a", "b"] {
        write(&file(name), std::slice::from_ref(&admin));
    }
    let set = |name: &str| format!("auth.file={}", file(name).display());
    let pair = Pair::nats_with(&[set("a")], &[set("b")], "admin", &[]).await;
    let nodes = async |asked: &Node| asked.get("/v1/nodes").await["nodes"].clone();
    let differ = async |asked: &Node| {
        let nodes = nodes(asked).await;
        let all = nodes.as_array().expect("nodes").clone();
        all.iter().filter(|node| node["access_differs"] == true).count()
    };
    eventually("both digests are known", async || {
        let nodes = nodes(&pair.a).await;
        nodes[0]["access_digest"].is_string()
            && nodes[0]["access_digest"] == nodes[1]["access_digest"]
    })
    .await;
    // The order of the file and its comments do not count.
    let more = principal("more", &all_of("m/"));
    replace(&file("a"), &[admin.clone(), more.clone()]);
    eventually("they differ", async || differ(&pair.a).await == 1 && differ(&pair.b).await == 1)
        .await;
    let status = pair.b.get("/v1/status").await;
    let of_b = status["attention"].as_array().expect("a list").clone();
    let shown = of_b.iter().find(|one| one["kind"] == "access-differs").expect("it shows");
    assert_eq!(shown["node"], json!(pair.a.url), "{shown}");
    replace(&file("b"), &["# a comment\n".to_owned(), more, admin]);
    eventually("they agree", async || differ(&pair.a).await == 0 && differ(&pair.b).await == 0)
        .await;
}
