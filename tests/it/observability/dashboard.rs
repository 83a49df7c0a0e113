//! The dashboards of `grafana/`, read, with their variables filled in.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What `$__rate_interval` stands for here. No other range is as long, so that lint can tell.
pub const RATE_INTERVAL: &str = "97s";

/// A dashboard as it is in its file.
pub struct Dashboard {
    pub file: String,
    pub json: Value,
}

/// One query of one panel.
pub struct Target {
    /// File, panel and reference, for messages.
    pub place: String,
    /// The query as it stands.
    pub raw: String,
}

/// The folder of everything for Grafana and Prometheus.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana")
}

/// Every dashboard.
pub fn all() -> Vec<Dashboard> {
    let mut dashboards = Vec::new();
    for entry in std::fs::read_dir(folder()).expect("grafana/") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = std::fs::read_to_string(&path).expect("a text");
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
            dashboards.push(Dashboard { file, json });
        }
    }
    assert!(!dashboards.is_empty(), "grafana/ has a dashboard");
    dashboards
}

impl Dashboard {
    /// Panels, rows aside.
    pub fn panels(&self) -> Vec<&Value> {
        let top = list(&self.json["panels"]);
        let nested = top.iter().flat_map(|panel| list(&panel["panels"]));
        top.iter().chain(nested).filter(|panel| panel["type"] != "row").collect()
    }

    /// The variables of the dashboard.
    pub fn variables(&self) -> &[Value] {
        list(&self.json["templating"]["list"])
    }

    /// Every query of every panel.
    pub fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for panel in self.panels() {
            for target in list(&panel["targets"]) {
                let place =
                    format!("{}: {} {}", self.file, text(&panel["title"]), text(&target["refId"]));
                targets.push(Target { place, raw: text(&target["expr"]).to_owned() });
            }
        }
        targets
    }

    /// The annotations, without the one of Grafana itself.
    pub fn notes(&self) -> impl Iterator<Item = &Value> {
        list(&self.json["annotations"]["list"]).iter().filter(|note| note["builtIn"] != 1)
    }

    /// Every query of an annotation.
    pub fn annotations(&self) -> Vec<Target> {
        let target = |note: &Value| Target {
            place: format!("{}: mark {}", self.file, text(&note["name"])),
            raw: text(&note["expr"]).to_owned(),
        };
        self.notes().map(target).collect()
    }
}

/// Every query of every dashboard: those of the panels, and those of the annotations.
pub fn queries() -> Vec<Target> {
    all().iter().flat_map(|board| board.targets().into_iter().chain(board.annotations())).collect()
}

/// A query with every variable filled in.
///
/// # Panics
/// When a variable is left.
pub fn filled(raw: &str, rate_interval: &str) -> String {
    let query = raw
        .replace("$__rate_interval", rate_interval)
        .replace("$__range", "3600s")
        .replace("$job", ".+")
        .replace("$instance", ".+")
        .replace("$pool", ".+");
    assert!(!query.contains('$'), "a variable is left in {query}");
    query
}

/// An array, or nothing.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text, or an empty one.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
