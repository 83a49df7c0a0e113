//! Every metric and label that a query names is in a scrape after a scripted workload.

use std::collections::{BTreeMap, BTreeSet};

use promql_parser::{
    label::Matchers,
    parser::{self, Expr, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use tenure::telemetry::TABLE;

use crate::observability::{
    alerts,
    dashboard::{self, Dashboard, RATE_INTERVAL, filled},
    node::Node,
    records::{self, is_recorded},
    scrape::Scrape,
    workload,
};

/// Prometheus adds these to every series itself.
const ADDED: [&str; 2] = ["job", "instance"];
/// A series of Prometheus itself: whether the last scrape succeeded.
const OWN: &str = "up";

/// What an expression names: metrics, each with the matchers of its labels; and labels that it groups by.
#[derive(Default)]
struct Names {
    metrics: Vec<(String, Matchers)>,
    labels: BTreeSet<String>,
}

impl Names {
    fn of(query: &str) -> Self {
        let expr = parser::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut names = Self::default();
        let _ = walk_expr(&mut names, &expr);
        names
    }

    fn selector(&mut self, selector: &VectorSelector) {
        let name = selector.name.clone().expect("a selector names its metric");
        self.metrics.push((name, selector.matchers.clone()));
    }
}

impl ExprVisitor for Names {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(range) => self.selector(&range.vs),
            Expr::Aggregate(aggregate) => {
                if let Some(by) = &aggregate.modifier {
                    self.labels.extend(by.labels().labels.iter().cloned());
                }
            }
            Expr::Binary(binary) => {
                let on = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
                self.labels.extend(on.into_iter().flat_map(|on| on.labels().labels.clone()));
            }
            _ => {}
        }
        Ok(true)
    }
}

/// What an expression names and a scrape does not have, nor a recording rule makes.
fn missing(query: &str, scrape: &Scrape, recorded: &[&str]) -> Vec<String> {
    let names = Names::of(query);
    let mut missing = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into();
    for (name, matchers) in names.metrics.iter().filter(|(name, _)| name != OWN) {
        if is_recorded(name) {
            let kept = records::labels(name);
            if !recorded.contains(&name.as_str()) {
                missing.push(format!("record {name}"));
            }
            let unkept = matchers.matchers.iter().filter(|m| !kept.contains(&m.name.as_str()));
            missing.extend(unkept.map(|matcher| format!("{name}{{{}}}", matcher.name)));
            labels.extend(kept);
            continue;
        }
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for series in scrape.of(name) {
            for (label, value) in &series.labels {
                values.entry(label).or_default().push(value);
            }
        }
        if scrape.of(name).next().is_none() {
            missing.push(format!("metric {name}"));
        }
        labels.extend(values.keys());
        for matcher in matchers.matchers.iter().filter(|m| !ADDED.contains(&m.name.as_str())) {
            let known = values.get(matcher.name.as_str());
            if !known.is_some_and(|known| known.iter().any(|value| matcher.is_match(value))) {
                missing.push(format!("{name}{{{}}} with {:?}", matcher.name, matcher.value));
            }
            // A list of alternatives hides a misspelt one.
            for one in matcher.value.split('|').filter(|one| one.chars().all(char::is_alphanumeric))
            {
                if !known.is_some_and(|known| known.contains(&one)) {
                    missing.push(format!("{name}{{{}=\"{one}\"}}", matcher.name));
                }
            }
        }
    }
    let unknown = names.labels.iter().filter(|label| !labels.contains(label.as_str()));
    missing.extend(unknown.map(|label| format!("label {label}")));
    missing
}

#[tokio::test]
async fn every_metric_and_label_of_dashboards_rules_and_alerts_is_in_a_scrape() {
    let node = Node::start(&[]).await;
    let _trace = workload::run(&node).await;
    let scrape = node.scrape().await;
    let mut faults = Vec::new();
    // A node without plugins has none of their series.
    let of_plugins = |raw: &str| {
        let mut table = TABLE.iter().filter(|metric| metric.labels.contains(&"plugin"));
        table.any(|metric| raw.contains(metric.name))
    };
    let rules = records::all();
    let recorded: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    for target in dashboard::queries().iter().filter(|target| !of_plugins(&target.raw)) {
        for name in missing(&filled(&target.raw, RATE_INTERVAL), &scrape, &recorded) {
            faults.push(format!("{}: {name}", target.place));
        }
    }
    for alert in alerts::all().iter().filter(|alert| !of_plugins(&alert.expr)) {
        for name in missing(&alert.expr, &scrape, &recorded) {
            faults.push(format!("alert {}: {name}", alert.name));
        }
    }
    // A rule uses what the rules above it record.
    for (at, rule) in rules.iter().enumerate() {
        for name in missing(&rule.expr, &scrape, &recorded[..at]) {
            faults.push(format!("rule {}: {name}", rule.name));
        }
    }
    for (page, query) in of_pages() {
        for name in missing(query, &scrape, &recorded) {
            faults.push(format!("{page}: {name}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The queries that pages of the manual show.
fn of_pages() -> Vec<(&'static str, &'static str)> {
    let pages = [
        ("metrics.md", include_str!("../../../docs/metrics.md")),
        ("slo.md", include_str!("../../../docs/slo.md")),
    ];
    let mut queries = Vec::new();
    for (page, text) in pages {
        let blocks = text.split("```promql\n").skip(1);
        let ends = blocks.map(|block| block.split_once("```").expect("the block ends").0);
        queries.extend(ends.map(|query| (page, query.trim())));
    }
    assert!(queries.len() >= 8, "{queries:?}");
    queries
}

#[test]
fn the_dashboards_show_every_metric_of_the_table() {
    let mut shown = BTreeSet::new();
    for target in dashboard::all().iter().flat_map(Dashboard::targets) {
        let names = Names::of(&filled(&target.raw, RATE_INTERVAL));
        shown.extend(names.metrics.into_iter().map(|(name, _)| name));
    }
    for series in TABLE {
        let is_shown = ["", "_bucket", "_count"]
            .iter()
            .any(|end| shown.contains(&format!("{}{end}", series.name)));
        assert!(is_shown, "no panel shows {}", series.name);
    }
}

#[test]
fn a_wrong_metric_label_or_value_is_noticed() {
    let scrape = Scrape::parse("a_bucket{le=\"1\",pool=\"x\"} 1\n");
    let missing = |query| missing(query, &scrape, &["job_pool:a:sum"]);
    assert_eq!(missing("sum by (le, pool, job) (rate(a_bucket{pool=\"x\"}[1m]))"), [""; 0]);
    assert_eq!(missing("b"), ["metric b"]);
    assert_eq!(missing("sum by (op) (a_bucket)"), ["label op"]);
    assert_eq!(missing("a_bucket{op=~\".+\"}").len(), 1);
    assert_eq!(missing("a_bucket{pool=~\"x|y\"}"), ["a_bucket{pool=\"y\"}"]);
    assert_eq!(missing("sum by (pool) (job_pool:a:sum{pool=~\"x\"})"), [""; 0]);
    assert_eq!(missing("job_pool:b:sum"), ["record job_pool:b:sum"]);
    assert_eq!(missing("job_pool:a:sum{instance=\"x\"}"), ["job_pool:a:sum{instance}"]);
}
