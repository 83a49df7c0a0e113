//! A coordinator that has something to read and to take, and what a page found out.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    access::cast::{all_of, call, principal, write},
    support::{
        chromium::{Chromium, Tab},
        clock::eventually,
        harness::{Connection, Reply, Server},
    },
};

/// A name by which the coordinator is called, besides 127.0.0.1. Browsers do not say to a name by plain HTTP which
/// site a request comes from.
pub const NAME: &str = "tenure.test";
/// The token of the person whose browser it is, who may do everything. It is the principal's name as well.
pub const TOKEN: &str = "person-at-the-browser";

const HELD: &str = "canary/held";
const OWNER: &str = "canary-owner";
const VALUE: &str = "canary-value";
const TTL_MS: u64 = 3_600_000;

/// A coordinator with a lease and a session, and an audit log.
pub struct Victim {
    pub server: Server,
    token: &'static str,
    log: PathBuf,
    /// All that a page could wish to know.
    bait: Value,
    _files: TempDir,
}

impl Victim {
    /// One that listens at this address. It asks for a token, unless that is empty.
    pub async fn start(listen: &str, token: &'static str) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let log = files.path().join("audit.log");
        let mut sets = vec![
            format!("server.listen={listen}"),
            format!("server.hosts={NAME}"),
            format!("audit.file={}", log.display()),
        ];
        if !token.is_empty() {
            let access = files.path().join("access.toml");
            write(&access, &[principal(token, &all_of(""))]);
            sets.push(format!("auth.file={}", access.display()));
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let server = Server::with(&sets);
        let mut victim = Self { server, token, log, bait: Value::Null, _files: files };
        let lease = json!({ "key": HELD, "owner": OWNER, "ttl_ms": TTL_MS, "value": VALUE });
        let lease = victim.call("POST", "/v1/acquire", &lease).await.ok();
        let session = json!({ "owner": OWNER, "ttl_ms": TTL_MS });
        let session = victim.call("POST", "/v1/sessions", &session).await.json();
        victim.bait = json!({
            "held": HELD, "free": "canary/free", "owner": OWNER, "guess": "tnr_guess",
            "lease_id": lease["lease_id"], "session": session["id"],
        });
        victim
    }

    pub fn port(&self) -> u16 {
        self.server.addr.port()
    }

    /// A call by the person, without the browser.
    async fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        let mut connection = Connection::open(self.server.addr).await;
        call(&mut connection, self.token, method, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).await.ok()
    }

    /// All changes since the store began, and all that is held.
    pub async fn state(&self) -> Value {
        let store = self.get("/v1/info").await["store_id"].as_str().expect("store_id").to_owned();
        let events = self.get(&format!("/v1/events?format=json&after={}-0-0", &store[..8])).await;
        assert_eq!(events["reset"], false, "the whole history is kept");
        let of = |list: &Value, fields: &[&str]| -> Vec<Value> {
            let list = list.as_array().expect("a list").iter();
            list.map(|one| fields.iter().map(|name| one[*name].clone()).collect()).collect()
        };
        let leases = self.get("/v1/leases").await;
        let fields = ["key", "state", "owner", "token", "pinned", "waiters"];
        let leases = of(&leases["leases"], &fields);
        let sessions = self.get("/v1/sessions").await;
        let sessions = of(&sessions["sessions"], &["digest", "owner", "state"]);
        assert_eq!((leases.len(), sessions.len()), (1, 1), "{leases:?} {sessions:?}");
        json!({ "events": events["events"], "leases": leases, "sessions": sessions })
    }

    /// Opens the coordinator's page, and signs in if it asks for that. Returns when it shows the lease.
    pub async fn show(&self, browser: &mut Chromium, host: &str) -> Tab {
        let tab = browser.open(&format!("http://{host}:{}/", self.port())).await;
        if !self.token.is_empty() {
            browser.until(&tab, "!document.getElementById('sign-in').hidden").await;
            let fill = "(token) => { const form = document.getElementById('sign-in'); \
                        form.elements.token.value = token; form.requestSubmit(); }";
            browser.evaluate(&tab, &format!("({fill})({})", json!(self.token))).await;
        }
        shows_the_lease(browser, &tab).await;
        tab
    }

    /// What the page in a tab can do to the coordinator at `target`.
    pub async fn attack(&self, browser: &mut Chromium, tab: &Tab, target: &str) -> Value {
        let begin = format!(
            "window.report = null; attack({}, {}).then((told) => {{ window.report = told; }}, \
             (why) => {{ window.report = {{ failed: String(why) }}; }}); 0",
            json!(target),
            self.bait
        );
        browser.evaluate(tab, &begin).await;
        browser.until(tab, "window.report !== null").await;
        let report = browser.evaluate(tab, "window.report").await;
        assert!(report.as_object().is_some_and(|told| told.len() > 80), "it is cut: {report}");
        report
    }

    /// The page found out nothing that is the coordinator's.
    pub fn told_nothing(&self, report: &Value) {
        let said = report.to_string();
        let secret = ["lease_id", "session"].map(|name| self.bait[name].as_str().expect(name));
        for word in [HELD, OWNER, VALUE, "tenure_leases_held"].into_iter().chain(secret) {
            assert!(!said.contains(word), "it found {word}: {report:#}");
        }
    }

    /// Waits until the audit log says of each of these calls that it was refused with this code.
    pub async fn refused(&self, code: &str, calls: &[(&str, &str)]) {
        for (method, path) in calls {
            eventually(&format!("{method} {path} is refused with {code}"), async || {
                self.lines().iter().any(|line| {
                    line["event"] == "refused"
                        && line["code"] == code
                        && line["method"] == *method
                        && line["path"] == *path
                })
            })
            .await;
        }
        // An order that is not refused is a `change`.
        let orders = self.lines().into_iter().find(|line| line["event"] == "change");
        assert_eq!(orders, None);
    }

    /// How many reads of everything by this path the audit log has.
    pub fn reads_of(&self, path: &str) -> usize {
        let lines = self.lines();
        lines.iter().filter(|line| line["event"] == "read" && line["path"] == path).count()
    }

    fn lines(&self) -> Vec<Value> {
        // Orders have a file of their own, which is there from the first of them.
        let orders = std::fs::read_to_string(self.log.with_extension("log.changes"));
        let text = std::fs::read_to_string(&self.log).expect("an audit log");
        let text = text + &orders.unwrap_or_default();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Waits until the coordinator's page shows the lease.
pub async fn shows_the_lease(browser: &mut Chromium, tab: &Tab) {
    let shown =
        format!("document.getElementById('main')?.textContent.includes({}) === true", json!(HELD));
    browser.until(tab, &shown).await;
}
