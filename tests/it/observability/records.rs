//! The recording rules of `grafana/rules.yml`.

use serde_json::Value;

use crate::observability::{alerts, dashboard::list, dashboard::text};

/// One recording rule.
#[derive(Debug)]
pub struct Record {
    /// Its name: the labels that it keeps, the metric, the operation.
    pub name: String,
    /// Its expression.
    pub expr: String,
}

/// Every recording rule, in the order of the file.
pub fn all() -> Vec<Record> {
    let file: Value = serde_saphyr::from_str(&alerts::read("rules.yml")).expect("rules.yml");
    let rules = list(&file["groups"]).iter().flat_map(|group| list(&group["rules"]));
    rules
        .map(|rule| Record {
            name: text(&rule["record"]).to_owned(),
            expr: text(&rule["expr"]).trim().to_owned(),
        })
        .collect()
}

/// Whether this is the name of a recorded series, and none of a scrape.
pub fn is_recorded(name: &str) -> bool {
    name.contains(':')
}

/// The labels that a recorded series keeps: its name begins with them.
pub fn labels(name: &str) -> Vec<&'static str> {
    let level = name.split(':').next().unwrap_or_default();
    ["job", "instance", "pool"]
        .into_iter()
        .filter(|label| level.split('_').any(|part| part == *label))
        .collect()
}

#[test]
fn names_say_which_labels_are_kept_and_what_was_done() {
    let records = all();
    assert!(records.len() >= 8, "{records:?}");
    for Record { name, expr } in &records {
        assert_eq!(name.split(':').count(), 3, "{name}: level, metric, operation");
        promql_parser::parser::parse(expr).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!expr.contains("job="), "{name} names a job");
    }
    let mut names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), records.len(), "a name stands twice");
    assert_eq!(labels("job_pool:a:sum"), ["job", "pool"]);
    assert_eq!(labels("tenure:a:objective"), [""; 0]);
}

#[test]
fn every_record_is_used_or_explained() {
    let boards: String = dashboards();
    let page = include_str!("../../../docs/slo.md");
    let rules = alerts::read("rules.yml") + &alerts::read("alerts.yml");
    for Record { name, .. } in all() {
        // Once where it is recorded.
        let used = rules.matches(&name).count() > 1 || boards.contains(&name);
        assert!(used, "nothing uses {name}");
        let metric = name.rsplit_once(':').expect("an operation").0;
        assert!(page.contains(metric), "docs/slo.md does not explain {name}");
    }
}

fn dashboards() -> String {
    ["tenure-overview.json", "tenure-workers.json"].map(alerts::read).concat()
}
