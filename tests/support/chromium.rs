//! A real browser: Debian's Chromium without a window, which takes orders over a pipe (the DevTools protocol).
//!
//! Guarantees: it ends with all that it started when this is dropped. It reaches nothing but this machine: the names
//! that a test gives it stand for 127.0.0.1, and no other name has an address.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
};

use super::{
    clock::{eventually, soon},
    processes,
};

/// It reads orders from file 3 and answers on file 4. They are the two pipes that this process has.
const BY_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// Some defences of the browser itself are off, so that what is left is the coordinator's.
const FLAGS: [&str; 20] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--password-store=basic",
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,HttpsUpgrades,\
     HttpsFirstBalancedModeAutoEnable,OptimizationHints,Translate,MediaRouter",
];

/// How long what the browser started may live on after a SIGKILL, on a busy machine.
const COMPANY: Duration = Duration::from_secs(10);
/// How much of what the browser said a failed test shows, in lines.
const SHOWN: usize = 40;

/// A browser with a profile of its own.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    given: u64,
    profile: TempDir,
}

/// A tab of it.
#[derive(Debug)]
pub struct Tab {
    target: String,
    session: String,
}

impl Chromium {
    /// One to which these names stand for 127.0.0.1.
    pub fn start(names: &[&str]) -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let known: String = names.iter().map(|name| format!("MAP {name} 127.0.0.1, ")).collect();
        let rules = format!("{known}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
        let said = File::create(profile.path().join("said")).expect("a file");
        let mut child = Command::new("sh")
            .args(["-c", BY_PIPES, "chromium"])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--host-resolver-rules={rules}"))
            .arg("about:blank")
            .env("HOME", profile.path())
            .env_remove("DISPLAY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let orders = child.stdin.take().expect("it is piped");
        let answers = child.stdout.take().expect("it is piped");
        let orders = ChildStdin::from_std(orders).expect("a pipe");
        let answers = BufReader::new(ChildStdout::from_std(answers).expect("a pipe"));
        Self { child, orders, answers, given: 0, profile }
    }

    /// A new tab with this page, which is loaded.
    pub async fn open(&mut self, url: &str) -> Tab {
        let tab = self.attached(&json!({ "url": url })).await;
        let loaded = "document.readyState === 'complete' && location.href !== 'about:blank'";
        self.until(&tab, loaded).await;
        tab
    }

    /// A new tab with this page, which is loaded, in a window of its own: it is seen while others are. In every page of
    /// the tab, the script runs before the page's own.
    pub async fn open_watched(&mut self, url: &str, script: &str) -> Tab {
        self.in_window(json!({}), url, script).await
    }

    /// The same, as if in a browser of its own: it shares no connections and no locks with other tabs.
    pub async fn open_apart(&mut self, url: &str, script: &str) -> Tab {
        let made = self.order(None, "Target.createBrowserContext", &json!({})).await;
        let context = &made.expect("a context")["browserContextId"];
        self.in_window(json!({ "browserContextId": context }), url, script).await
    }

    async fn in_window(&mut self, mut wanted: Value, url: &str, script: &str) -> Tab {
        (wanted["url"], wanted["newWindow"]) = ("about:blank".into(), true.into());
        let tab = self.attached(&wanted).await;
        self.tell(&tab, "Page.enable", &json!({})).await;
        let source = json!({ "source": script });
        self.tell(&tab, "Page.addScriptToEvaluateOnNewDocument", &source).await;
        self.tell(&tab, "Page.navigate", &json!({ "url": url })).await;
        let loaded = "document.readyState === 'complete' && location.href !== 'about:blank'";
        self.until(&tab, loaded).await;
        tab
    }

    /// Gives the page in a tab an order of the DevTools protocol, such as `Emulation.setEmulatedMedia`.
    pub async fn tell(&mut self, tab: &Tab, method: &str, params: &Value) -> Value {
        let told = self.order(Some(tab), method, params).await;
        told.unwrap_or_else(|why| panic!("{method}: {why}"))
    }

    /// A new tab to which orders can be given.
    async fn attached(&mut self, wanted: &Value) -> Tab {
        let made = self.order(None, "Target.createTarget", wanted).await;
        let target = made.expect("a tab")["targetId"].as_str().expect("targetId").to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.order(None, "Target.attachToTarget", &attach).await;
        let session = attached.expect("a session")["sessionId"].as_str().expect("id").to_owned();
        Tab { target, session }
    }

    /// Closes a tab. What its page had open ends.
    pub async fn close(&mut self, tab: Tab) {
        let target = json!({ "targetId": tab.target });
        self.order(None, "Target.closeTarget", &target).await.expect("it is closed");
    }

    /// The value of an expression of the page in a tab. A promise is waited for.
    pub async fn evaluate(&mut self, tab: &Tab, expression: &str) -> Value {
        let value = self.try_evaluate(tab, expression).await;
        value.unwrap_or_else(|why| panic!("{expression}: {why}"))
    }

    /// Asks the page in a tab until the expression is `true`.
    pub async fn until(&mut self, tab: &Tab, expression: &str) {
        // While a page gives way to the next there is nobody to ask.
        eventually(expression, async || {
            matches!(self.try_evaluate(tab, expression).await, Ok(Value::Bool(true)))
        })
        .await;
    }

    async fn try_evaluate(&mut self, tab: &Tab, expression: &str) -> Result<Value, Value> {
        let what = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut told = self.order(Some(tab), "Runtime.evaluate", &what).await?;
        match told.get("exceptionDetails") {
            Some(thrown) => Err(thrown.clone()),
            None => Ok(told["result"]["value"].take()),
        }
    }

    /// Gives an order and waits for its answer. `Err`: the browser refuses.
    async fn order(
        &mut self,
        tab: Option<&Tab>,
        method: &str,
        params: &Value,
    ) -> Result<Value, Value> {
        self.given += 1;
        let mut order = json!({ "id": self.given, "method": method, "params": params });
        if let Some(tab) = tab {
            order["sessionId"] = json!(tab.session);
        }
        let mut answer = soon(method, self.exchange(&order)).await;
        match answer.get("error") {
            Some(refused) => Err(refused.clone()),
            None => Ok(answer["result"].take()),
        }
    }

    async fn exchange(&mut self, order: &Value) -> Value {
        let bytes = format!("{order}\0");
        let written = self.orders.write_all(bytes.as_bytes()).await;
        written.expect("chromium listens; `make debian` fetches it");
        self.orders.flush().await.expect("chromium listens");
        loop {
            let mut heard = Vec::new();
            let length = self.answers.read_until(0, &mut heard).await.expect("a pipe");
            assert!(length > 0, "chromium has ended; `make debian` fetches it");
            let heard: Value = serde_json::from_slice(&heard[..length - 1]).expect("JSON");
            // The others are events.
            if heard["id"] == order["id"] {
                return heard;
            }
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let company = processes::descendants(self.child.id());
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        let end = Instant::now() + COMPANY;
        // Some of them lead groups of their own.
        let mut left = processes::left(&company);
        while !left.is_empty() && Instant::now() < end {
            left.iter().for_each(|(pid, _)| processes::kill(*pid));
            std::thread::sleep(Duration::from_millis(10));
            left = processes::left(&left);
        }
        if std::thread::panicking() {
            let said = fs::read(self.profile.path().join("said")).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).into_owned();
            let last: Vec<&str> = said.lines().rev().take(SHOWN).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            eprintln!("--- chromium said at last:\n{}\n---", last.join("\n"));
        }
    }
}
