#!/usr/bin/env python3
"""Prepares the pages for mdBook, so that one set of links works on GitHub and in the site.

On GitHub a page links to files of the repository, such as ../config/tenure.toml. mdBook sees one folder only. So this
script copies the pages that SUMMARY.md names, at their places in the repository, and every file that they link to. A
linked folder becomes a page that lists its files.

Usage: stage.py OUT           fills OUT/src, and copies the settings of mdBook to OUT
       stage.py OUT --plain   after mdBook: puts the Markdown of each page, llms.txt and the lists beside the HTML
"""

import html
import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def is_local(link):
    return not link.startswith(("http:", "https:", "mailto:", "#"))


def targets(page):
    """The files that a page links to, as paths in the repository."""
    text = FENCE.sub("", (ROOT / page).read_text())
    links = (link.split("#")[0] for link in LINK.findall(text) if is_local(link))
    return [posixpath.normpath(posixpath.join(posixpath.dirname(page), link)) for link in links]


def pages():
    """The pages that SUMMARY.md names, in its order."""
    return targets("docs/SUMMARY.md")


def linked():
    """What the pages link to and is no page."""
    own = set(pages())
    return sorted({target for page in own for target in targets(page)} - own)


def copy(path, out):
    target = out / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, target)


def listing(folder, out):
    """A page that lists the files of a folder, and the files."""
    files = sorted(file for file in (ROOT / folder).rglob("*") if file.is_file())
    names = [file.relative_to(ROOT / folder).as_posix() for file in files]
    for name in names:
        copy(f"{folder}/{name}", out)
    items = "".join(f'<li><a href="{html.escape(name)}">{html.escape(name)}</a></li>\n' for name in names)
    title = html.escape(folder)
    page = f"<!doctype html>\n<meta charset=utf-8>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}</ul>\n"
    (out / folder / "index.html").write_text(page)


def stage(out):
    shutil.rmtree(out / "src", ignore_errors=True)
    src = out / "src"
    for page in pages():
        copy(page, src)
    for path in linked():
        listing(path, src) if (ROOT / path).is_dir() else copy(path, src)
    # SUMMARY.md is in docs/ for GitHub; mdBook wants it above all pages.
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    moved = LINK.sub(lambda link: f"]({posixpath.normpath(posixpath.join('docs', link[1]))})", summary)
    (src / "SUMMARY.md").write_text(moved)
    for name in ["book.toml", "diagrams.js", "site.css"]:
        shutil.copyfile(ROOT / "docs/site" / name, out / name)


def plain(out):
    for page in pages():
        copy(page, out / "book")
    copy("llms.txt", out / "book")


if __name__ == "__main__":
    (plain if "--plain" in sys.argv[2:] else stage)(Path(sys.argv[1]))
