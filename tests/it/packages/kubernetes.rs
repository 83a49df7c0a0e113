//! The manifests of Kubernetes: pods start with their settings, and ports, probes, labels and volumes fit together.

use std::collections::BTreeMap;

use serde_json::Value;
use tenure::settings::Settings;

use crate::{
    packages::{IN_IMAGE, list, repository, settings, text, yaml},
    support::{
        harness::{Server, eventually},
        process::Process,
    },
};

/// The manifests with a workload, and the kinds of the workload and of the store.
const MANIFESTS: [(&str, &str, &str); 2] = [
    ("deploy/kubernetes/embedded.yaml", "StatefulSet", "embedded"),
    ("deploy/kubernetes/nats.yaml", "Deployment", "nats"),
];

fn of_kind(file: &str, kind: &str) -> Vec<Value> {
    yaml(file).into_iter().filter(|document| document["kind"] == kind).collect()
}

fn only(file: &str, kind: &str) -> Value {
    let mut found = of_kind(file, kind);
    assert_eq!(found.len(), 1, "{file}: {kind}");
    found.remove(0)
}

/// The variables of a pod, as Kubernetes gives them to the coordinator.
fn variables(container: &Value) -> Vec<(String, String)> {
    let given = list(&container["env"], "variables").iter();
    let given = given.filter(|one| one["value"].is_string());
    given
        .map(|one| {
            let value = text(&one["value"], "a value");
            let value = value.replace("$(POD_IP)", "10.1.2.3").replace("$(POD_NAME)", "tenure-0");
            assert!(!value.contains("$("), "{value} names a variable that is not there");
            (text(&one["name"], "a name").to_owned(), value)
        })
        .collect()
}

fn started(file: &str, container: &Value) -> Settings {
    let ours = variables(container);
    let ours: Vec<_> = ours.into_iter().filter(|(name, _)| name.starts_with("TENURE__")).collect();
    // The mounted file takes the place of the one in the image, and is empty.
    let config = only(file, "ConfigMap");
    assert_eq!(config["data"]["tenure.toml"], "");
    let mounts = list(&container["volumeMounts"], "mounts");
    assert!(
        mounts.iter().any(|mount| mount["mountPath"] == "/etc/tenure/tenure.toml"),
        "{mounts:?}"
    );
    settings(None, &ours).unwrap_or_else(|faults| panic!("{file}: {faults}"))
}

#[test]
fn every_pod_starts_with_its_settings_and_tells_an_address_that_others_reach() {
    for (file, kind, store) in MANIFESTS {
        let workload = only(file, kind);
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        let read = started(file, container);
        assert_eq!(read.store.kind.as_str(), store);
        assert!(!read.auth.file.as_os_str().is_empty(), "{file}: callers are not authenticated");
        let port = read.server.listen.port();
        assert_eq!(container["ports"][0]["containerPort"], port, "{file}");
        let own = &read.node.advertise_url;
        assert!(own.ends_with(&format!(":{port}")), "{own}");
        if kind == "StatefulSet" {
            let nodes = text(&workload["spec"]["serviceName"], "a Service");
            assert!(own.contains(&format!("://tenure-0.{nodes}.")), "{own}");
        } else {
            assert!(own.contains("://10.1.2.3:"), "{own}");
        }
        // Clients call by the names of the Service, which no other setting allows.
        for service in of_kind(file, "Service") {
            let name = text(&service["metadata"]["name"], "a name");
            if service["spec"]["clusterIP"] != "None" {
                let hosts: Vec<&str> = read.server.hosts.split(',').collect();
                for host in [name.to_owned(), format!("{name}.tenure.svc")] {
                    assert!(hosts.contains(&host.as_str()), "{host} is not in {hosts:?}");
                }
            }
        }
        // The file in the image would have others.
        let image = [("TENURE__SERVER__ACCEPT_NO_AUTH".to_owned(), "true".to_owned())];
        let image = settings(Some(IN_IMAGE), &image).expect("settings without a fault");
        assert_eq!(image.server.listen, read.server.listen);
    }
}

#[test]
fn whatever_a_setting_names_is_on_a_volume() {
    for (file, kind, _) in MANIFESTS {
        let workload = only(file, kind);
        let pod = &workload["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let read = started(file, container);
        let mounts: BTreeMap<&str, &str> = list(&container["volumeMounts"], "mounts")
            .iter()
            .map(|mount| (text(&mount["mountPath"], "a path"), text(&mount["name"], "a name")))
            .collect();
        let mut named = vec![&read.node.witness, &read.store.embedded.data_dir, &read.auth.file];
        if file.contains("embedded") {
            named.extend([&read.server.tls_cert, &read.server.tls_key]);
        }
        for path in named {
            let mounted = mounts.keys().any(|mount| path.starts_with(mount));
            assert!(mounted, "{file}: {} is on no volume", path.display());
        }
        let claims = workload["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
        let claims = claims.map(|claim| text(&claim["metadata"]["name"], "a claim"));
        let volumes = list(&pod["volumes"], "volumes").iter();
        let volumes = volumes.map(|volume| text(&volume["name"], "a volume"));
        let there: Vec<&str> = volumes.chain(claims).collect();
        for volume in mounts.values() {
            assert!(there.contains(volume), "{file}: the volume {volume} is missing");
        }
        // Nothing else can be written, and only the embedded store needs a disk.
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(workload["spec"]["volumeClaimTemplates"].is_array(), kind == "StatefulSet");
    }
}

#[test]
fn probes_and_services_use_the_port_by_its_name_and_scheme() {
    for (file, kind, _) in MANIFESTS {
        let workload = only(file, kind);
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        let read = started(file, container);
        let scheme = if read.server.tls_cert.as_os_str().is_empty() { "http" } else { "https" };
        assert_eq!(container["ports"][0]["name"], scheme, "{file}");
        for (probe, path) in
            [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
        {
            let get = &container[probe]["httpGet"];
            assert_eq!(get["path"], path, "{file}: {probe}");
            assert_eq!(
                (&get["port"], &get["scheme"]),
                (&scheme.into(), &scheme.to_uppercase().into())
            );
        }
        let services = of_kind(file, "Service");
        assert_eq!(services.len(), 2, "{file}");
        for service in services {
            let port = &service["spec"]["ports"][0];
            assert_eq!((&port["name"], &port["targetPort"]), (&scheme.into(), &scheme.into()));
            assert_eq!(port["port"], read.server.listen.port());
        }
        let policy = only(file, "NetworkPolicy");
        assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], read.server.listen.port());
        // A stop is longer than the pause before it and what the coordinator may take.
        let grace = workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
        let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64();
        let needed = pause.expect("a pause") + read.server.shutdown_timeout.as_secs();
        assert!(grace.expect("a grace period") > needed, "{file}");
    }
}

#[test]
fn selectors_select_the_pods_and_no_pod_has_rights() {
    for (file, kind, _) in MANIFESTS {
        let workload = only(file, kind);
        let pod = &workload["spec"]["template"];
        let labels = pod["metadata"]["labels"].as_object().expect("labels");
        let mut selectors = vec![workload["spec"]["selector"]["matchLabels"].clone()];
        selectors
            .push(only(file, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].clone());
        selectors.push(only(file, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"].clone());
        selectors
            .extend(of_kind(file, "Service").iter().map(|one| one["spec"]["selector"].clone()));
        for selector in selectors {
            let selector = selector.as_object().expect("labels");
            assert!(!selector.is_empty(), "{file}");
            for (name, value) in selector {
                assert_eq!(labels.get(name), Some(value), "{file}: {name}");
            }
        }
        let security = &pod["spec"]["securityContext"];
        assert_eq!(
            (&security["runAsNonRoot"], &security["runAsUser"]),
            (&true.into(), &65532.into())
        );
        let container = &pod["spec"]["containers"][0]["securityContext"];
        assert_eq!(container["capabilities"]["drop"], serde_json::json!(["ALL"]));
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    }
}

#[test]
fn the_service_monitor_finds_the_service_of_the_clients_alone() {
    let monitor = only("deploy/kubernetes/servicemonitor.yaml", "ServiceMonitor");
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels");
    let endpoint = &monitor["spec"]["endpoints"][0];
    let services = of_kind("deploy/kubernetes/nats.yaml", "Service");
    let found: Vec<&Value> = services
        .iter()
        .filter(|service| {
            wanted
                .iter()
                .all(|(name, value)| service["metadata"]["labels"].get(name) == Some(value))
        })
        .collect();
    assert_eq!(found.len(), 1, "a pod that is scraped by two Services counts twice");
    assert_eq!(found[0]["spec"]["ports"][0]["name"], endpoint["port"]);
    assert_eq!(endpoint["path"], "/metrics");
}

const WORKER: &str = "deploy/kubernetes/worker.yaml";

#[tokio::test]
async fn the_worker_runs_a_program_for_each_key_of_its_file() {
    let worker = only(WORKER, "Deployment");
    let container = &worker["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(text(&container["command"][0], "a program"), "/usr/bin/tenure");
    let keys = text(&only(WORKER, "ConfigMap")["data"]["keys"], "keys").to_owned();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keys");
    std::fs::write(&file, &keys).expect("a file");
    let server =
        Server::configured("[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\n");

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
    for one in list(&container["args"], "arguments") {
        match text(one, "an argument") {
            "--keys-from=/etc/shards/keys" => {
                command.arg(format!("--keys-from={}", file.display()))
            }
            "/app/worker" => command.args(["/bin/sleep", "60"]),
            other => command.arg(other),
        };
    }
    let manual = repository("docs/cli.md");
    for one in list(&container["env"], "variables") {
        let name = text(&one["name"], "a name");
        assert!(manual.contains(name), "{name} is no variable of the command line");
    }
    command.env("TENURE_SERVER", format!("http://{}", server.addr)).env("TENURE_OWNER", "shards-0");
    let worker = Process::start("the worker", &mut command);
    let all = async || {
        let page = server.get("/v1/leases?state=held&prefix=shards/").await.ok();
        let held = list(&page["leases"], "leases").to_owned();
        held.len() == keys.lines().count() && held.iter().all(|one| one["owner"] == "shards-0")
    };
    eventually("it has every key", all).await;
    assert_eq!(keys.lines().count(), 4);
    worker.signal(rustix::process::Signal::TERM);
    assert_eq!(worker.wait().status.code(), Some(0));
}
