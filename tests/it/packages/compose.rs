//! The compose stack: every coordinator starts with its settings, and what is mounted exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use crate::packages::{ROOT, list, repository, settings, text, yaml};

const FOLDER: &str = "deploy/compose";
/// Where a container of the image looks for its settings.
const SETTINGS: &str = "/etc/tenure/tenure.toml";

fn services() -> BTreeMap<String, Value> {
    let stack = yaml("deploy/compose/compose.yaml").remove(0);
    let services = stack["services"].as_object().expect("services");
    services.iter().map(|(name, service)| (name.clone(), service.clone())).collect()
}

fn coordinators() -> Vec<(String, Value)> {
    services().into_iter().filter(|(name, _)| name.starts_with("tenure-")).collect()
}

fn variables(service: &Value) -> Vec<(String, String)> {
    let given = service["environment"].as_object().expect("variables");
    given.iter().map(|(name, value)| (name.clone(), text(value, name).to_owned())).collect()
}

/// What a service mounts from the repository: the path in it, and the one in the container.
fn mounts(service: &Value) -> Vec<(String, String)> {
    let volumes =
        list(&service["volumes"], "volumes").iter().map(|volume| text(volume, "a volume"));
    let ours = volumes.filter(|volume| volume.starts_with('.'));
    ours.map(|volume| {
        let mut parts = volume.split(':');
        let (from, to) = (parts.next().expect("a path"), parts.next().expect("a path"));
        (from.to_owned(), to.to_owned())
    })
    .collect()
}

/// Host and port of a URL.
fn authority(url: &str) -> (String, u16) {
    let (_, rest) = url.split_once("://").unwrap_or_else(|| panic!("{url} is no URL"));
    let (host, port) = rest.split_once(':').unwrap_or_else(|| panic!("{url} has no port"));
    (host.to_owned(), port.parse().expect("a port"))
}

#[test]
fn every_coordinator_starts_and_is_reached_by_the_address_that_it_tells() {
    let services = services();
    let mut ports = BTreeSet::new();
    let coordinators = coordinators();
    assert_eq!(coordinators.len(), 3);
    for (name, service) in &coordinators {
        let mounted = mounts(service);
        let (from, _) = mounted.iter().find(|(_, to)| to == SETTINGS).expect("settings");
        let read = settings(Some(&format!("{FOLDER}/{from}")), &variables(service));
        let read = read.unwrap_or_else(|faults| panic!("{name}: {faults}"));
        assert_eq!(read.store.kind.as_str(), "nats");
        assert_eq!(authority(&read.node.advertise_url), (name.clone(), read.server.listen.port()));
        assert!(
            services.contains_key(&authority(&read.store.nats.url).0),
            "{}",
            read.store.nats.url
        );
        for port in list(&service["ports"], name) {
            let port = text(port, name);
            // Callers are not authenticated, so no other machine may.
            let published = port.strip_prefix("127.0.0.1:").expect("loopback alone");
            let (outside, inside) = published.split_once(':').expect("two ports");
            assert_eq!(inside, read.server.listen.port().to_string(), "{name}");
            assert!(ports.insert(outside.to_owned()), "{outside} is published twice");
        }
        // The image is one without a shell: nothing overrides its probe.
        assert!(service["healthcheck"].is_null(), "{name}");
        assert_eq!(service["depends_on"]["nats"]["condition"], "service_healthy");
    }
    assert_eq!(ports.len(), 3);
}

#[test]
fn no_port_is_published_to_other_machines() {
    for (name, service) in services() {
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(text(port, &name).starts_with("127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn the_nats_server_is_the_one_that_the_tests_use() {
    let makefile = repository("Makefile");
    let version = makefile.lines().find_map(|line| line.strip_prefix("NATS_VERSION = "));
    let version = version.expect("a version");
    let services = services();
    let nats = &services["nats"];
    assert_eq!(text(&nats["image"], "nats"), format!("nats:{version}-alpine"));
    let command: Vec<&str> =
        list(&nats["command"], "nats").iter().map(|word| text(word, "nats")).collect();
    let mounted = mounts(nats);
    let (from, to) = mounted.first().expect("its settings");
    assert_eq!(command, ["--config", to]);
    let read = repository(&format!("{FOLDER}/{from}"));
    assert!(read.contains("jetstream {") && read.contains("sync_interval: always"), "{read}");
}

#[test]
fn what_is_mounted_is_in_the_repository() {
    let mut mounted = 0;
    for (name, service) in services() {
        for (from, _) in mounts(&service) {
            assert!(Path::new(ROOT).join(FOLDER).join(&from).exists(), "{name} mounts {from}");
            mounted += 1;
        }
    }
    assert!(mounted >= 4, "{mounted}");
}

#[test]
fn prometheus_scrapes_every_coordinator_as_often_as_in_the_manual_and_has_rules_and_alerts() {
    let ours = yaml("deploy/compose/prometheus.yml").remove(0);
    let plain = yaml("grafana/prometheus.yml").remove(0);
    for part in ["global", "rule_files"] {
        assert_eq!(ours[part], plain[part], "{part}");
    }
    let (job, plain) = (&ours["scrape_configs"][0], &plain["scrape_configs"][0]);
    assert_eq!(job["job_name"], plain["job_name"]);
    let targets = list(&job["static_configs"][0]["targets"], "targets");
    let targets: BTreeSet<String> =
        targets.iter().map(|one| text(one, "a target").into()).collect();
    let wanted = coordinators().into_iter().map(|(name, _)| format!("{name}:7373"));
    assert_eq!(targets, wanted.collect::<BTreeSet<String>>());
    let mounted = mounts(&services()["prometheus"]);
    let at = |path: &str| mounted.iter().find(|(_, to)| to == path).map(|(from, _)| from.as_str());
    assert_eq!(at("/etc/prometheus/prometheus.yml"), Some("./prometheus.yml"));
    for file in list(&ours["rule_files"], "rule files").iter().map(|file| text(file, "a file")) {
        let from = format!("../../grafana/{file}");
        assert_eq!(at(&format!("/etc/prometheus/{file}")), Some(from.as_str()));
    }
}

#[test]
fn grafana_finds_the_dashboards_and_the_data() {
    let services = services();
    let grafana = &services["grafana"];
    let mounted = mounts(grafana);
    let at = |path: &str| mounted.iter().find(|(_, to)| to == path).map(|(from, _)| from.as_str());
    assert_eq!(at("/etc/grafana/provisioning"), Some("../../grafana/provisioning"));
    let source = yaml("grafana/provisioning/datasources/prometheus.yml").remove(0);
    let source = &source["datasources"][0];
    let (host, port) = authority(text(&source["url"], "the data source"));
    let published = text(&services[&host]["ports"][0], &host).to_owned();
    assert!(published.ends_with(&format!(":{port}")), "{published}");
    assert_eq!((&source["type"], &source["isDefault"]), (&"prometheus".into(), &true.into()));
    let scraped = yaml("deploy/compose/prometheus.yml").remove(0);
    assert_eq!(source["jsonData"]["timeInterval"], scraped["global"]["scrape_interval"]);
    let providers = yaml("grafana/provisioning/dashboards/tenure.yml").remove(0);
    let folder = text(&providers["providers"][0]["options"]["path"], "a folder").to_owned();
    let entries = std::fs::read_dir(Path::new(ROOT).join("grafana")).expect("grafana/");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let names = names.map(|name| name.expect("a name")).filter(|name| name.ends_with(".json"));
    let names: Vec<String> = names.collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        let from = format!("../../grafana/{name}");
        assert_eq!(at(&format!("{folder}/{name}")), Some(from.as_str()));
    }
    let dashboard = format!("{folder}/tenure-overview.json");
    let home = &grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"];
    assert_eq!(text(home, "the home dashboard"), dashboard);
}
