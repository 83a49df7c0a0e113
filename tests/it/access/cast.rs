//! Principals, and a coordinator that asks for them.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::{
    clock::eventually,
    harness::{Connection, Reply, Server},
    node::Node,
};

/// The digest of a token, as the access file has it.
pub fn digest(token: &str) -> String {
    let bytes = Sha256::digest(token.as_bytes());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Rights with all verbs that are about keys, to the keys with this prefix.
pub fn all_of(prefix: &str) -> String {
    let verbs = r#"["hold", "read", "check", "admin", "break"]"#;
    format!(
        r#"{{ verb = {verbs}, prefix = "{prefix}" }}, {{ verb = ["probe", "observe", "access"] }}"#
    )
}

/// Rights with all verbs that are about keys, to this one key.
pub fn all_of_key(key: &str) -> String {
    let verbs = r#"["hold", "read", "check", "admin", "break"]"#;
    format!(r#"{{ verb = {verbs}, key = "{key}" }}, {{ verb = ["probe", "observe", "access"] }}"#)
}

/// A principal whose token is its name, and who acts for every owner.
pub fn principal(name: &str, may: &str) -> String {
    acting_as(name, may, "*")
}

/// A principal whose token is its name.
pub fn acting_as(name: &str, may: &str, owner: &str) -> String {
    let digest = digest(name);
    format!(
        "[[principal]]\nname = \"{name}\"\ntoken = \"{digest}\"\nowner = \"{owner}\"\nmay = [{may}]\n"
    )
}

/// A file with these principals.
pub fn write(path: &Path, principals: &[String]) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    std::io::Write::write_all(&mut file.expect("a file"), principals.concat().as_bytes())
        .expect("it is written");
}

/// A coordinator and its access file.
pub struct Guarded {
    pub server: Server,
    pub file: PathBuf,
    _dir: TempDir,
}

impl Guarded {
    pub fn start(principals: &[String], sets: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("access.toml");
        write(&file, principals);
        let of_file = format!("auth.file={}", file.display());
        let sets: Vec<&str> = sets.iter().copied().chain([of_file.as_str()]).collect();
        Self { server: Server::with(&sets), file, _dir: dir }
    }

    /// One with a settings file, which may have policies, and variables of its environment.
    pub fn configured(principals: &[String], settings: &str, env: &[(&str, &str)]) -> Self {
        Self::start_beside(&[], principals, settings, env)
    }

    /// One with these files, names and contents, beside its access file.
    pub fn start_beside(
        files: &[(&str, String)],
        principals: &[String],
        settings: &str,
        env: &[(&str, &str)],
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("access.toml");
        write(&file, principals);
        for (name, content) in files {
            write(&dir.path().join(name), std::slice::from_ref(content));
        }
        let settings = format!("[auth]\nfile = {:?}\n{settings}", file.display().to_string());
        Self { server: Server::configured_in(&settings, env), file, _dir: dir }
    }

    /// A cursor before the first change.
    pub async fn server_cursor(&self, token: &str) -> String {
        let info = self.get(token, "/v1/info").await.ok();
        format!("{}-0-0", &info["store_id"].as_str().expect("store_id")[..8])
    }

    /// A call by whom this token is of; without a token if it is empty.
    pub async fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Reply {
        call(&mut Connection::open(self.server.addr).await, token, method, path, body).await
    }

    pub async fn post(&self, token: &str, path: &str, body: &Value) -> Reply {
        self.call(token, "POST", path, body).await
    }

    pub async fn get(&self, token: &str, path: &str) -> Reply {
        self.call(token, "GET", path, &Value::Null).await
    }

    /// Puts other principals into force.
    pub async fn reload(&self, principals: &[String]) {
        let reloads = || self.server.said().matches("access file reloaded").count();
        let before = reloads();
        write(&self.file, principals);
        self.server.signal(Signal::HUP);
        eventually("the access file is reloaded", async || reloads() > before).await;
    }
}

/// A call on this connection.
pub async fn call(
    connection: &mut Connection,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Reply {
    let shown = format!("Bearer {token}");
    let headers: &[(&str, &str)] =
        if token.is_empty() { &[] } else { &[("Authorization", shown.as_str())] };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    connection.call(method, path, headers, body.as_bytes()).await
}

/// A call, on a connection of its own, of the node at this URL.
pub async fn call_at(url: &str, token: &str, method: &str, path: &str, body: &Value) -> Reply {
    let address = url.trim_start_matches("http://").parse().expect("an address");
    call(&mut Connection::open(address).await, token, method, path, body).await
}

/// Puts other principals into force at a node that reads this file.
pub async fn reload(node: &Node, file: &Path, principals: &[String]) {
    let reloads = || node.said().matches("access file reloaded").count();
    let before = reloads();
    write(file, principals);
    node.signal(Signal::HUP);
    eventually("the access file is reloaded", async || reloads() > before).await;
}
