//! Debian's real Prometheus scrapes a running node, loads the rules and answers every query.

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::observability::{
    alerts,
    dashboard::{self, filled, list},
    node::{Node, eventually},
    records, workload,
};

use crate::support::http;
use crate::support::ports::free_port;

const MISSING: &str = "it is needed: apt-get install -y --no-install-recommends prometheus";
/// Long enough for two scrapes at one a second, and for a busy machine.
const RATE_INTERVAL: &str = "30s";
/// Queries that are right and may be empty all the same. Each with its reason.
const MAY_BE_EMPTY: [(&str, &str); 11] = [
    ("Certificate expires in A", "the node has no certificate"),
    ("Certificate expires in B", "no setting names a certificate"),
    ("Clock jumps and missing log lines K", "each file is in force"),
    ("Fence tries by outcome A", "the node has no plugins"),
    ("Fence duration A", "the node has no plugins"),
    ("Fences in flight A", "the node has no plugins"),
    ("Fences in flight B", "the node has no plugins"),
    ("Notifications by outcome A", "the node has no plugins"),
    ("Notification duration A", "the node has no plugins"),
    ("Notification lag A", "the node has no plugins"),
    ("Notification lag B", "the node has no plugins"),
];
/// The marks in the plots that a healthy node makes. All others are for what must not happen.
const MARKS: [&str; 1] = ["mark Node started"];

/// A running Prometheus; it ends with this value.
struct Prometheus {
    url: String,
    child: Child,
    client: reqwest::Client,
    dir: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts with `grafana/prometheus.yml`, pointed at this node and hurried.
    async fn start(node: &Node) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = alerts::read("prometheus.yml");
        for part in ["127.0.0.1:7373", "scrape_interval: 15s", "evaluation_interval: 15s"] {
            assert_eq!(config.matches(part).count(), 1, "prometheus.yml says {part} once");
        }
        let config = config
            .replace("127.0.0.1:7373", &format!("127.0.0.1:{}", node.port()))
            .replace("_interval: 15s", "_interval: 1s");
        std::fs::write(dir.path().join("prometheus.yml"), config).expect("written");
        std::fs::write(dir.path().join("alerts.yml"), alerts::read("alerts.yml")).expect("written");
        let rules = alerts::read("rules.yml");
        assert_eq!(rules.matches("interval: 2m").count(), 1, "rules.yml has one slow group");
        let rules = rules.replace("interval: 2m", "interval: 1s");
        std::fs::write(dir.path().join("rules.yml"), rules).expect("written");
        let (child, url) = Self::spawn(dir.path());
        let mut prometheus = Self { url, child, client: http::client(), dir };
        eventually("Prometheus is ready", async || prometheus.is_ready().await).await;
        prometheus
    }

    fn spawn(dir: &Path) -> (Child, String) {
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("log")).expect("a file"))
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus: {error}; {MISSING}"));
        (child, format!("http://{address}"))
    }

    async fn is_ready(&mut self) -> bool {
        if let Some(status) = self.child.try_wait().expect("a status") {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            // Another program was faster to take the port that was free.
            assert!(log.contains("address already in use"), "prometheus ended, {status}:\n{log}");
            (self.child, self.url) = Self::spawn(self.dir.path());
            return false;
        }
        let asked = self.client.get(format!("{}/-/ready", self.url)).send().await;
        asked.is_ok_and(|response| response.status().is_success())
    }

    async fn api(&self, path: &str) -> Value {
        let response = self.client.get(format!("{}{path}", self.url)).send().await;
        let answer: Value = response.expect("an answer").json().await.expect("JSON");
        answer
    }

    /// The result of a query, or what was wrong with it.
    async fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let body = format!("query={}", percent(query));
        let request = self.client.post(format!("{}/api/v1/query", self.url));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.body(body).send().await.expect("an answer");
        let answer: Value = response.json().await.expect("JSON");
        if answer["status"] != "success" {
            return Err(answer["error"].to_string());
        }
        Ok(list(&answer["data"]["result"]).to_vec())
    }

    async fn number(&self, query: &str) -> f64 {
        let result = self.query(query).await.unwrap_or_default();
        let text = result.first().and_then(|sample| sample["value"][1].as_str());
        text.and_then(|text| text.parse().ok()).unwrap_or(0.0)
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn a_real_prometheus_answers_every_query_of_the_dashboards() {
    let node = Node::start(&[]).await;
    let prometheus = Prometheus::start(&node).await;
    let first = "count_over_time(tenure_build_info[1h])";
    eventually("the first scrape", async || prometheus.number(first).await >= 1.0).await;
    let _trace = workload::run(&node).await;
    // The pool has a member from now on, so that its share of time is recorded.
    node.open_session(&json!({"owner": "worker-four", "ttl_ms": 300_000, "pool": "default"})).await;
    let owned = "job_pool:tenure_pool_owned:ratio30d";
    eventually("a record", async || prometheus.number(owned).await > 0.0).await;
    let seen = prometheus.number(first).await;
    eventually("two scrapes more", async || prometheus.number(first).await >= seen + 2.0).await;
    let (mut faults, mut queries) = (Vec::new(), 0);
    for target in dashboard::queries() {
        queries += 1;
        let is_mark = target.place.contains(": mark ");
        let is_made = MARKS.iter().any(|mark| target.place.ends_with(mark));
        let may_be_empty = MAY_BE_EMPTY.iter().any(|(place, _)| target.place.ends_with(place));
        match prometheus.query(&filled(&target.raw, RATE_INTERVAL)).await {
            Err(error) => faults.push(format!("{}: {error}", target.place)),
            Ok(result) if is_mark && result.is_empty() == is_made => {
                faults.push(format!("{}: {result:?}", target.place));
            }
            Ok(result) if result.is_empty() && !may_be_empty && !is_mark => {
                faults.push(format!("{}: nothing", target.place));
            }
            Ok(_) => {}
        }
    }
    println!("{queries} queries");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    let grants = "increase(tenure_lease_acquisitions_total{outcome=\"granted\"}[1m])";
    assert!(prometheus.number(grants).await > 10.0, "the workload is seen");
    rules_are_loaded(&prometheus).await;
    variables_have_values(&prometheus).await;
}

/// Prometheus has the rules that the other tests read from the file, and none of them fails.
async fn rules_are_loaded(prometheus: &Prometheus) {
    let evaluated = async || {
        let answer = prometheus.api("/api/v1/rules").await;
        let groups = list(&answer["data"]["groups"]).to_vec();
        let rules: Vec<Value> = groups.iter().flat_map(|g| list(&g["rules"]).to_vec()).collect();
        rules
    };
    eventually("every rule was evaluated", async || {
        let rules = evaluated().await;
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] != "unknown")
    })
    .await;
    let mut rules = evaluated().await;
    let alerts = alerts::all().into_iter().map(|alert| (alert.name, alert.expr));
    let records = records::all().into_iter().map(|record| (record.name, record.expr));
    let mut expected: Vec<(String, String)> = alerts.chain(records).collect();
    rules.sort_by_key(|rule| rule["name"].to_string());
    expected.sort_by_key(|(name, _)| Value::from(name.as_str()).to_string());
    assert_eq!(rules.len(), expected.len());
    for (rule, (name, expr)) in rules.iter().zip(expected) {
        assert_eq!(rule["name"], name);
        assert_eq!(rule["health"], "ok", "{rule}");
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        let ours = promql_parser::parser::parse(&expr).expect("PromQL").to_string();
        let theirs = promql_parser::parser::parse(rule["query"].as_str().expect("a query"));
        assert_eq!(plain(&ours), plain(&theirs.expect("PromQL").to_string()), "{name}");
        assert!(rule["state"] != "firing", "{name} fires on a healthy node");
    }
}

/// The dashboard's variables find something to choose from.
async fn variables_have_values(prometheus: &Prometheus) {
    for label in ["job", "instance", "pool"] {
        let answer = prometheus.api(&format!("/api/v1/label/{label}/values")).await;
        assert!(!list(&answer["data"]).is_empty(), "{label}: {answer}");
    }
}

fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool: {error}; {MISSING}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    child.wait_with_output().expect("its output")
}

fn satisfied(arguments: &[&str], input: &str) {
    let Output { status, stdout, stderr } = promtool(arguments, input);
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(status.success(), "promtool {arguments:?}: {said}");
}

#[tokio::test]
async fn promtool_finds_no_fault_in_a_scrape() {
    let node = Node::start(&[]).await;
    let _trace = workload::run(&node).await;
    let output = promtool(&["check", "metrics"], &node.metrics().await);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn promtool_finds_no_fault_in_configuration_and_rules() {
    satisfied(&["check", "config", "grafana/prometheus.yml"], "");
    satisfied(&["check", "rules", "grafana/rules.yml", "grafana/alerts.yml"], "");
}

#[test]
fn promtool_sees_every_alert_fire_and_a_calm_node_stay_silent() {
    satisfied(&["test", "rules", "grafana/alerts_test.yml"], "");
}
