//! The rules of Grafana's dashboard-linter, which is a Go program, and a few of this house.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::observability::{
    dashboard::{self, Dashboard, RATE_INTERVAL, filled, list, text},
    records::is_recorded,
};
use promql_parser::{
    parser::{self, Expr},
    util::{ExprVisitor, walk_expr},
};

/// Units that the dashboards use, all of Grafana's list of formats.
const UNITS: [&str; 8] =
    ["none", "short", "ops", "s", "bytes", "percentunit", "bool_yes_no", "dtdurations"];
const DATASOURCE: &str = "${datasource}";

/// Gathers what breaks a rule, so that all of it is told at once.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, holds: bool, place: &str, rule: &str) {
        if !holds {
            self.0.push(format!("{place}: {rule}"));
        }
    }

    fn none(&self) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
    }
}

#[test]
fn dashboards_are_classic_and_portable() {
    let mut faults = Faults::default();
    for Dashboard { file, json } in dashboard::all() {
        let stem = file.trim_end_matches(".json");
        faults.unless(json["schemaVersion"] == 39, &file, "schemaVersion is 39");
        faults.unless(json["uid"] == stem, &file, "the uid is the name of the file");
        faults.unless(json["id"].is_null(), &file, "id is null");
        faults.unless(json["editable"] == false, &file, "uneditable-dashboard");
        faults.unless(json.get("__inputs").is_none(), &file, "no __inputs");
        faults.unless(json.get("__requires").is_none(), &file, "no __requires");
        faults.unless(!text(&json["title"]).is_empty(), &file, "has a title");
    }
    faults.none();
}

#[test]
fn variables_choose_the_data_source_then_job_instance_and_pool() {
    let mut faults = Faults::default();
    for board in dashboard::all() {
        let file = &board.file;
        let names: Vec<&str> = board.variables().iter().map(|v| text(&v["name"])).collect();
        faults.unless(names == ["datasource", "job", "instance", "pool"], file, "variables");
        let source = &board.variables()[0];
        let right = source["type"] == "datasource"
            && source["query"] == "prometheus"
            && source["label"] == "Data source";
        faults.unless(right, file, "template-datasource-rule");
        for variable in &board.variables()[1..] {
            let place = format!("{file}: {}", text(&variable["name"]));
            faults.unless(variable["type"] == "query", &place, "is a query");
            faults.unless(
                variable["datasource"]["uid"] == DATASOURCE,
                &place,
                "uses ${datasource}",
            );
            faults.unless(variable["multi"] == true, &place, "takes several values");
            faults.unless(variable["includeAll"] == true, &place, "can take all");
            faults.unless(variable["allValue"] == ".+", &place, "all is .+");
            faults.unless(variable["refresh"] == 2, &place, "template-on-time-change-reload");
            let label = text(&variable["label"]).to_lowercase();
            faults.unless(label == text(&variable["name"]), &place, "is labelled by its name");
            let query = text(&variable["query"]["query"]);
            let inner = query.strip_prefix("label_values(").and_then(|q| q.split_once(", "));
            let selector = query.rsplit_once(", ").map(|(head, _)| head);
            let parses = inner.is_some()
                && selector
                    .and_then(|head| head.strip_prefix("label_values("))
                    .is_some_and(|q| parser::parse(&filled(q, RATE_INTERVAL)).is_ok());
            faults.unless(parses, &place, "template-label-promql-rule");
        }
    }
    faults.none();
}

#[test]
fn panels_have_title_description_unit_data_source_and_queries() {
    let mut faults = Faults::default();
    for board in dashboard::all() {
        for panel in board.panels() {
            let place = format!("{}: {}", board.file, text(&panel["title"]));
            faults.unless(!text(&panel["title"]).is_empty(), &place, "panel-title");
            faults.unless(text(&panel["description"]).len() > 20, &place, "panel-description");
            faults.unless(
                panel["datasource"]["uid"] == DATASOURCE,
                &place,
                "panel-datasource-rule",
            );
            let unit = if panel["type"] == "heatmap" {
                &panel["options"]["yAxis"]["unit"]
            } else {
                &panel["fieldConfig"]["defaults"]["unit"]
            };
            faults.unless(UNITS.contains(&text(unit)), &place, "panel-units-rule");
            faults.unless(!list(&panel["targets"]).is_empty(), &place, "panel-no-targets-rule");
            for target in list(&panel["targets"]) {
                faults.unless(
                    target["datasource"]["uid"] == DATASOURCE,
                    &place,
                    "target data source",
                );
                faults.unless(!text(&target["legendFormat"]).is_empty(), &place, "has a legend");
            }
        }
    }
    faults.none();
}

#[test]
fn panels_fill_the_grid_without_overlap_and_have_ids_of_their_own() {
    for board in dashboard::all() {
        let top = list(&board.json["panels"]);
        let mut ids = BTreeSet::new();
        fill(top, &mut ids);
        for row in top.iter().filter(|panel| panel["type"] == "row") {
            let (title, panels) = (text(&row["title"]), list(&row["panels"]));
            assert_eq!(row["collapsed"] == true, !panels.is_empty(), "{title}: what it hides");
            fill(panels, &mut ids);
            // Grafana moves a row's panels by the distance of the first one from the row.
            let top = panels.iter().filter_map(|panel| panel["gridPos"]["y"].as_u64()).min();
            let row = row["gridPos"]["y"].as_u64().expect("a place");
            assert!(top.is_none_or(|top| top == row + 1), "{title}: its panels are below it");
        }
    }
}

/// Checks that these panels do not overlap, and gathers their ids.
fn fill(panels: &[Value], ids: &mut BTreeSet<u64>) {
    let mut cells = BTreeSet::new();
    for panel in panels {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: its id is taken");
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{title} leaves the grid");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} overlaps another panel");
            }
        }
    }
}

#[test]
fn a_dashboard_opens_with_two_rows_and_hides_the_others() {
    for board in dashboard::all() {
        let rows = list(&board.json["panels"]).iter().filter(|panel| panel["type"] == "row");
        let open: Vec<bool> = rows.map(|row| row["collapsed"] != true).collect();
        assert!(open.len() > 2, "{}", board.file);
        let wanted = (0..open.len()).map(|at| at < 2).collect::<Vec<bool>>();
        assert_eq!(open, wanted, "{}", board.file);
    }
}

#[test]
fn annotations_have_name_colour_text_and_data_source() {
    let mut faults = Faults::default();
    for board in dashboard::all() {
        let mut names = BTreeSet::new();
        for note in board.notes() {
            let name = text(&note["name"]);
            let place = format!("{}: mark {name}", board.file);
            faults.unless(names.insert(name), &place, "its name is its own");
            faults.unless(note["datasource"]["uid"] == DATASOURCE, &place, "data source");
            faults.unless(note["enable"] == true, &place, "is shown");
            faults.unless(text(&note["titleFormat"]) == name, &place, "its title is its name");
            for part in ["iconColor", "textFormat", "tagKeys", "step"] {
                faults.unless(!text(&note[part]).is_empty(), &place, part);
            }
            // Grafana shows what is above 0. A time in place of a value is one in milliseconds.
            let query = text(&note["expr"]);
            let by_time = note["useValueForTime"] == true && query.contains("* 1000");
            faults.unless(by_time || query.contains(" > "), &place, "is above 0 when it is so");
        }
        faults.unless(names.contains("Node started"), &board.file, "marks starts");
        faults.unless(names.contains("Epoch raised"), &board.file, "marks raised epochs");
    }
    faults.none();
}

/// What the linter looks for in a query: the ranges, and the counters outside of a rate.
#[derive(Default)]
struct Inspector {
    faults: Vec<String>,
}

impl Inspector {
    fn call(&mut self, function: &str, argument: &Expr) {
        let Expr::MatrixSelector(range) = argument else { return };
        let rate_interval = range.range.as_secs() == 97;
        if matches!(function, "rate" | "irate") && !rate_interval {
            self.faults.push("target-rate-interval-rule".into());
        }
        if function == "increase" && !rate_interval && range.range.as_secs() != 3600 {
            self.faults.push("an increase over neither $__rate_interval nor $__range".into());
        }
    }
}

impl ExprVisitor for Inspector {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        match expr {
            Expr::Call(call) => {
                for argument in &call.args.args {
                    self.call(call.func.name, argument);
                }
            }
            Expr::VectorSelector(selector) => {
                let name = selector.name.as_deref().unwrap_or_default();
                let counter = ["_total", "_bucket", "_sum", "_count"];
                if counter.iter().any(|end| name.ends_with(end)) {
                    self.faults.push(format!("target-counter-agg-rule: {name}"));
                }
            }
            _ => {}
        }
        Ok(true)
    }
}

/// Whether a query, up to the selector of a series, ends with the name of a recorded one.
fn ends_in_record(head: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    is_recorded(head.rsplit(|letter| !is_of_name(letter)).next().unwrap_or_default())
}

#[test]
fn queries_parse_use_the_rate_interval_and_select_job_and_instance() {
    let mut faults = Faults::default();
    for target in dashboard::queries() {
        let query = filled(&target.raw, RATE_INTERVAL);
        match parser::parse(&query) {
            Err(error) => {
                faults.unless(false, &target.place, &format!("target-promql-rule: {error}"))
            }
            Ok(expr) => {
                let mut inspector = Inspector::default();
                let _ = walk_expr(&mut inspector, &expr);
                for fault in inspector.faults {
                    faults.unless(false, &target.place, &fault);
                }
            }
        }
        let selectors = target.raw.matches('{').count();
        // What a rule recorded has no instance any more.
        let records = target.raw.split('{').rev().skip(1).filter(|head| ends_in_record(head));
        let scraped = selectors - records.count();
        for (matcher, count, rule) in [
            ("job=~\"$job\"", selectors, "target-job-rule"),
            ("instance=~\"$instance\"", scraped, "target-instance-rule"),
        ] {
            faults.unless(target.raw.matches(matcher).count() == count, &target.place, rule);
        }
        faults.unless(!target.raw.contains("job=\""), &target.place, "no job is named");
    }
    faults.none();
}

#[test]
fn the_linter_notices_what_it_is_for() {
    let expr = parser::parse("rate(a_total[5m]) + sum(b_total) + increase(c_total[7m])");
    let mut inspector = Inspector::default();
    let _ = walk_expr(&mut inspector, &expr.expect("it parses"));
    assert_eq!(inspector.faults.len(), 3, "{:?}", inspector.faults);
    assert!(ends_in_record("min(job_pool:a:sum") && !ends_in_record("job:a:b + up"));
}
