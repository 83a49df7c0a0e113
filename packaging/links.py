#!/usr/bin/env python3
"""Checks that the pages of a directory lead to files in it: links.py DIRECTORY."""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# What only somebody with the repository reads.
NOT_SHIPPED = ("src/", "tests/")


def main() -> None:
    root = pathlib.Path(sys.argv[1]).resolve()
    faults = []
    for page in root.rglob("*.md"):
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" in link or link.startswith("mailto:"):
                continue
            target = (page.parent / link).resolve()
            if target.exists() or str(target.relative_to(root)).startswith(NOT_SHIPPED):
                continue
            faults.append(f"{page.relative_to(root)} leads to {link}, which is not there")
    if faults:
        sys.exit("\n".join(faults))


main()
