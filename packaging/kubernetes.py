#!/usr/bin/env python3
"""Renders deploy/helm/tenure into deploy/kubernetes, and checks it against the published schemas: `make manifests`.

Without --write, it fails if the committed manifests are not what the chart says. Needs helm-python-sdk and
kubernetes-validate (`make tools-kubernetes`).
"""

import argparse
import pathlib
import re
import sys

import helm_python as helm
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy/helm/tenure"
MANIFESTS = ROOT / "deploy/kubernetes"
# The oldest version that Chart.yaml allows, and the newest one.
VERSIONS = ("1.30", "1.37")
NAMESPACE = "tenure"
ACCESS = {"access": {"secret": "tenure-access"}, "tls": {"secret": "tenure-tls"}}
NATS = {"store": "nats", "settings": {"store.nats.url": "nats://nats:4222"}}
MESH = {"access": {"secret": "tenure-access"}, "tls": {"acceptPlaintext": True}}
MONITOR = {"serviceMonitor": {"enabled": True, "tokenSecret": "tenure-metrics"}}
# Where pods may connect to.
TO_NATS = {"to": [{"podSelector": {"matchLabels": {"app": "nats"}}}], "ports": [{"protocol": "TCP", "port": 4222}]}
EGRESS = {
    "enabled": True,
    "store": [TO_NATS],
    "plugins": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 443}]}],
    "checks": [{"to": [{"namespaceSelector": {}}]}],
    "others": [{"ports": [{"protocol": "TCP", "port": 4318}]}],
}
# What is committed, with its values and the templates that it has.
COMMITTED = {
    "embedded.yaml": (ACCESS, None),
    "nats.yaml": (NATS | MESH, None),
    "servicemonitor.yaml": (MESH | MONITOR, "servicemonitor.yaml"),
}
# What must be valid as well.
OTHERS = [
    ACCESS | {"networkPolicy": {"egress": {"enabled": True}}},
    NATS | ACCESS | {"networkPolicy": {"egress": EGRESS}},
    {"access": {"acceptNoAuth": True}, "hosts": ["leases.example.com"], "networkPolicy": {"enabled": False}},
    NATS | ACCESS | MONITOR,
    {
        "store": "dynamodb",
        "access": {"acceptNoAuth": True},
        "settings": {"store.dynamodb.region": "eu-central-1", "limits.keys": 50000000, "limits.strict_prefixes": True},
        "config": '[[policy]]\nprefix = "a/"\n',
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"operator": "Exists"}],
        "podAnnotations": {"a": "b"},
        "imagePullSecrets": [{"name": "pull"}],
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "serviceAccount": {"annotations": {"a": "b"}},
        "persistence": {"storageClass": "fast"},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
]
# What tenure would not start with must not be installed either: values, and a word of the reason.
REFUSED = [
    ({}, "access.secret"),
    ({"access": {"secret": "s"}}, "plain text"),
    ({"access": {"secret": "s", "acceptNoAuth": True}}, "exclude"),
    (MESH | {"serviceMonitor": {"enabled": True}}, "tokenSecret"),
    (NATS | MESH | {"networkPolicy": {"egress": {"enabled": True}}}, "egress.store"),
    ({"store": "redis", "access": {"acceptNoAuth": True}}, "store"),
    ({"acess": {"acceptNoAuth": True}}, "acess"),
]
HEADER = "# What the chart in deploy/helm/tenure says: `make manifests` writes it. docs/kubernetes.md says how to use it.\n"


def render(values, only=None):
    """The manifests of the chart, as text, with the source of each."""
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        found = chart.render(values, name="tenure", namespace=NAMESPACE)
    texts = []
    for path, text in sorted(found.items()):
        name = pathlib.PurePosixPath(path).name
        if name.endswith(".yaml") and text.strip() and (only is None or name == only):
            texts.append(text.strip())
    return "---\n".join(f"{text}\n" for text in texts)


def validate(text, name):
    """Every document fits the schema of its kind. That of a ServiceMonitor is the operator's."""
    faults, kinds = [], []
    for document in yaml.safe_load_all(text):
        kinds.append(document["kind"])
        if document["kind"] == "ServiceMonitor":
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                faults.append(f"{name}: {document['kind']} of {version}: {'.'.join(map(str, error.path))}: {error.message}")
    return kinds, faults


def egress_faults():
    """Where the pods may connect to, if that has a limit: each list of rules, and each other."""
    values = NATS | ACCESS | {"networkPolicy": {"egress": EGRESS}}
    policies = [one for one in yaml.safe_load_all(render(values)) if one["kind"] == "NetworkPolicy"]
    spec = policies[0]["spec"]
    own = {"to": [{"podSelector": spec["podSelector"]}], "ports": [{"protocol": "TCP", "port": 7373}]}
    expected = [own, {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}]
    for name in ("store", "plugins", "checks", "others"):
        expected += EGRESS[name]
    faults = []
    if spec["policyTypes"] != ["Ingress", "Egress"] or spec["egress"] != expected:
        faults.append(f"the NetworkPolicy lets pods connect to {spec.get('egress')}, and not to {expected}")
    if "Egress" in render(NATS | ACCESS):
        faults.append("egress has a limit that nobody asked for")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the manifests")
    args = parser.parse_args()
    faults = [f"lint: {finding}" for finding in findings()]
    for name, (values, only) in COMMITTED.items():
        # Helm does not manage these.
        text = HEADER + re.sub(r" *app.kubernetes.io/managed-by: Helm\n", "", render(values, only))
        kinds, found = validate(text, name)
        faults += found
        print(f"{name}: {', '.join(kinds)}")
        if args.write:
            (MANIFESTS / name).write_text(text)
        elif (MANIFESTS / name).read_text() != text:
            faults.append(f"{name} is not what the chart says: run `make manifests`")
    kinds, found = validate((MANIFESTS / "worker.yaml").read_text(), "worker.yaml")
    faults += found
    print(f"worker.yaml: {', '.join(kinds)}")
    for number, values in enumerate(OTHERS, 1):
        kinds, found = validate(render(values), f"values {number}")
        faults += found
        print(f"values {number}: {', '.join(kinds)}")
    for values, word in REFUSED:
        try:
            render(values)
            faults.append(f"{values} is accepted")
        except helm.HelmError as error:
            if word not in str(error):
                faults.append(f"{values} is refused without the word {word!r}: {error}")
    faults += egress_faults()
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(bool(faults))


def findings():
    """What `helm lint` finds, but for hints."""
    report = helm.lint(str(CHART), values={"access": {"acceptNoAuth": True}})
    return [*report["errors"], *(found for found in report["messages"] if found["severity"] > 1)]


if __name__ == "__main__":
    main()
