#!/usr/bin/env python3
"""Makes and unpacks the container image, without a daemon and with the standard library alone.

The archive is an OCI image layout. It also has the manifest.json of `docker save`, so `docker load` and `podman load`
take it, and `skopeo copy oci-archive:FILE docker://…` pushes it. The same inputs give the same bytes, whoever makes it.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import tarfile
import time

LAYOUT = {"imageLayoutVersion": "1.0.0"}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
# The number that images without a root user commonly use.
USER = 65532
DATA = "var/lib/tenure"
PROGRAM = "usr/bin/tenure"
SETTINGS = "etc/tenure/tenure.toml"
PORT = 7373
SECOND = 1_000_000_000


def epoch():
    """The time of everything in the image."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def compact(value):
    """A document that is the same each time."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Layer:
    """A tar archive of files and directories, in the order in which they were added."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.GNU_FORMAT)
        self.known = set()

    def _add(self, path, mode, owner, data=None):
        entry = tarfile.TarInfo(path)
        entry.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
        entry.mode, entry.uid, entry.gid, entry.mtime = mode, owner, owner, epoch()
        entry.size = 0 if data is None else len(data)
        self.tar.addfile(entry, None if data is None else io.BytesIO(data))

    def directory(self, path, mode=0o755, owner=0):
        """Adds a directory, and those above it."""
        for above in reversed(pathlib.PurePosixPath(path).parents):
            if str(above) != "." and str(above) not in self.known:
                self.directory(str(above))
        if path not in self.known:
            self.known.add(path)
            self._add(path, mode, owner)

    def file(self, path, data, mode=0o644):
        self.directory(str(pathlib.PurePosixPath(path).parent))
        self._add(path, mode, 0, data)

    def finish(self):
        """The archive as it is, and compressed."""
        self.tar.close()
        plain = self.bytes.getvalue()
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0, filename="") as out:
            out.write(plain)
        return plain, packed.getvalue()


def base_layer(args):
    """What changes rarely: users, certificate authorities, directories, settings, the licence."""
    layer = Layer()
    layer.file("etc/passwd", f"root:x:0:0:root:/:/\ntenure:x:{USER}:{USER}:tenure:/{DATA}:/\n".encode())
    layer.file("etc/group", f"root:x:0:\ntenure:x:{USER}:\n".encode())
    # For DynamoDB, and for all else that is verified by the authorities of the operating system.
    layer.file("etc/ssl/certs/ca-certificates.crt", args.ca.read_bytes())
    layer.file(SETTINGS, args.settings.read_bytes())
    layer.file("usr/share/doc/tenure/LICENSE", args.licence.read_bytes())
    layer.directory("proc")
    layer.directory("tmp", 0o1777)
    layer.directory(DATA, 0o700, USER)
    return layer.finish()


def program_layer(args):
    layer = Layer()
    layer.file(PROGRAM, args.binary.read_bytes(), 0o755)
    return layer.finish()


def configuration(args, layers):
    """How a container of this image is started, watched and stopped."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))
    labels = {
        "org.opencontainers.image.title": "tenure",
        "org.opencontainers.image.version": args.version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    }
    return {
        "created": created,
        "architecture": args.architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {f"{PORT}/tcp": {}},
            "Env": ["PATH=/usr/bin", f"TENURE_CONFIG=/{SETTINGS}"],
            "Entrypoint": [f"/{PROGRAM}"],
            "Cmd": ["serve"],
            "Volumes": {f"/{DATA}": {}},
            "WorkingDir": f"/{DATA}",
            "Labels": labels,
            "StopSignal": "SIGTERM",
            # Docker's addition to the format: others ignore it.
            "Healthcheck": {
                "Test": ["CMD", f"/{PROGRAM}", "ready"],
                "Interval": 10 * SECOND,
                "Timeout": 5 * SECOND,
                "StartPeriod": 30 * SECOND,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(plain)}" for plain, _ in layers]},
        "history": [
            {"created": created, "created_by": "packaging/oci.py: users, authorities, settings"},
            {"created": created, "created_by": "packaging/oci.py: the program"},
        ],
    }


def build(args):
    blobs = {}

    def blob(data, kind):
        digest = sha256(data)
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    layers = [base_layer(args), program_layer(args)]
    config = blob(compact(configuration(args, layers)), CONFIG)
    described = [blob(packed, LAYER) for _, packed in layers]
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": described}
    manifest = blob(compact(document), MANIFEST)
    manifest["platform"] = {"architecture": args.architecture, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": args.version}
    place = lambda found: "blobs/" + found["digest"].replace(":", "/")
    docker = [
        {
            "Config": place(config),
            "RepoTags": [f"tenure:{args.version}"],
            "Layers": [place(found) for found in described],
        }
    ]
    files = {
        "oci-layout": compact(LAYOUT),
        "index.json": compact({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]}),
        "manifest.json": compact(docker),
        **dict(sorted(blobs.items())),
    }
    image = Layer()
    for path, data in files.items():
        image.file(path, data) if "/" in path else image._add(path, 0o644, 0, data)
    image.tar.close()
    args.output.write_bytes(image.bytes.getvalue())
    print(f"{args.output}: {args.output.stat().st_size} bytes, manifest {manifest['digest']}")


class Image:
    """An image in an archive. Every blob is verified when it is read."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
        if json.loads(self.files["oci-layout"]) != LAYOUT:
            raise SystemExit(f"{path} is no OCI image layout")
        (found,) = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(found))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, found):
        algorithm, digest = found["digest"].split(":")
        data = self.files[f"blobs/{algorithm}/{digest}"]
        if algorithm != "sha256" or sha256(data) != digest or len(data) != found["size"]:
            raise SystemExit(f"{found['digest']} has other bytes than its name and size say")
        return data

    def unpack(self, root):
        """Applies the layers. As root, files get the owners that the image names."""
        ids = self.config["rootfs"]["diff_ids"]
        if len(ids) != len(self.manifest["layers"]):
            raise SystemExit("the configuration names other layers than the manifest")
        for found, identity in zip(self.manifest["layers"], ids):
            plain = gzip.decompress(self.blob(found))
            if f"sha256:{sha256(plain)}" != identity:
                raise SystemExit(f"{found['digest']} is not the layer {identity}")
            with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
                tar.extractall(root, numeric_owner=True)


def unpack(args):
    args.to.mkdir(parents=True, exist_ok=True)
    image = Image(args.image)
    image.unpack(args.to)
    print(json.dumps(image.config["config"], indent=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("build", help="make the archive")
    making.add_argument("--binary", type=pathlib.Path, required=True, help="the static program")
    making.add_argument("--ca", type=pathlib.Path, required=True, help="PEM file with the certificate authorities")
    making.add_argument("--licence", type=pathlib.Path, required=True)
    here = pathlib.Path(__file__).parent
    making.add_argument("--settings", type=pathlib.Path, default=here / "container.toml")
    making.add_argument("--version", required=True)
    making.add_argument("--architecture", default="amd64")
    making.add_argument("--output", type=pathlib.Path, required=True)
    making.set_defaults(run=build)
    unpacking = commands.add_parser("unpack", help="verify the archive, write its files, print its configuration")
    unpacking.add_argument("--image", type=pathlib.Path, required=True)
    unpacking.add_argument("--to", type=pathlib.Path, required=True, help="an empty directory")
    unpacking.set_defaults(run=unpack)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
