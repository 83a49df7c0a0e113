//! What packages and manifests say of ports, paths and settings is what the program and the shipped settings say.
//! `make try-dist` installs and runs the packages themselves, and `make charts` renders the chart.

mod cluster;
mod compose;
mod debian;
mod image;
mod kubernetes;
mod systemd;

use std::path::Path;

use serde_json::Value;
use tenure::settings::{Settings, Sources};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The settings in the container image.
const IN_IMAGE: &str = "packaging/container.toml";

/// A file of the repository.
fn repository(file: &str) -> String {
    let path = Path::new(ROOT).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// The documents of a YAML file.
fn yaml(file: &str) -> Vec<Value> {
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&repository(file));
    documents.unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// The text of a value, which must be one.
fn text<'a>(value: &'a Value, what: &str) -> &'a str {
    value.as_str().unwrap_or_else(|| panic!("{what}: {value} is no text"))
}

/// The items of a list, which must be one.
fn list<'a>(value: &'a Value, what: &str) -> &'a [Value] {
    value.as_array().unwrap_or_else(|| panic!("{what}: {value} is no list"))
}

/// The settings of a coordinator that reads this file and these variables, or all faults.
fn settings(file: Option<&str>, variables: &[(String, String)]) -> Result<Settings, String> {
    let path = file.map(|file| Path::new(ROOT).join(file));
    let sources = Sources::new().file(path.as_deref()).environment(variables.iter().cloned());
    sources.load().map(|loaded| loaded.settings).map_err(|faults| faults.to_string())
}

/// The only version that anything is packaged with.
#[test]
fn chart_and_stack_name_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &yaml("deploy/helm/tenure/Chart.yaml")[0];
    assert_eq!((&chart["version"], &chart["appVersion"]), (&version.into(), &version.into()));
    let stack = repository("deploy/compose/compose.yaml");
    assert!(stack.contains(&format!("image: tenure:${{TENURE_VERSION:-{version}}}")));
    for manifest in ["embedded", "nats"] {
        let manifest = repository(&format!("deploy/kubernetes/{manifest}.yaml"));
        assert!(manifest.contains(&format!("image: \"tenure:{version}\"")), "{manifest}");
    }
}
