#!/usr/bin/env python3
"""Runs the fuzz targets, each for so long, and says how many inputs each of them met.

The stable compiler is enough: libFuzzer needs coverage alone, and no sanitizer. What makes a target fail is
kept in fuzz/artifacts/<target>/; it belongs into fuzz/regressions/<target>/, where the test `fuzz` finds it.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TARGETS = ["record", "key", "cursor", "body", "settings"]
# Longer inputs show nothing new, and take longer.
MOST = {"record": 1024, "key": 1024, "cursor": 64, "body": 512, "settings": 512}


def cargo_fuzz(*arguments, **options):
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1")
    return subprocess.run(["cargo", "fuzz", *arguments], cwd=HERE.parent, env=environment, **options)


def run(target, arguments):
    (HERE / "corpus" / target).mkdir(parents=True, exist_ok=True)
    dictionary = HERE / "dict" / f"{target}.dict"
    flags = [f"-max_len={MOST[target]}", "-print_final_stats=1", "-rss_limit_mb=4096"]
    flags += [f"-dict={dictionary}"] if dictionary.exists() else []
    flags += [f"-max_total_time={arguments.seconds}"] if arguments.seconds else []
    flags += [f"-runs={arguments.runs}"] if arguments.runs else []
    done = cargo_fuzz(
        "run", "--sanitizer", "none", "-O", target, "--", *flags, stderr=subprocess.PIPE, text=True
    )
    met = re.search(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    count = int(met[1]) if met else 0
    sound = done.returncode == 0 and count > 0
    if not sound:
        print(done.stderr[-6000:])
    print(f"{target}: {count} inputs, {'no fault' if sound else 'FAILED'}", flush=True)
    return sound


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("targets", nargs="*", default=TARGETS)
    arguments = parser.parse_args()
    built = cargo_fuzz("build", "--sanitizer", "none", "-O")
    if built.returncode != 0:
        print("0 passed, 1 failed")
        return 1
    sound = [run(target, arguments) for target in arguments.targets]
    print(f"{sound.count(True)} passed, {sound.count(False)} failed")
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
