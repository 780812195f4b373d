# SPDX-License-Identifier: Apache-2.0
"""What mkdocs does not do by itself: pages outside of docs, links to files that are no pages, and a check of anchors."""

import html.parser
import os
import pathlib
import posixpath
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
REFERENCE = pathlib.Path(ROOT, "bin", "docs-reference")
ROOT_PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def slug(value, separator):
    """Returns the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", value.strip().lower()).replace(" ", separator)


def on_config(config):
    config["mdx_configs"]["toc"]["slugify"] = slug
    return config


def on_files(files, config):
    for page in ROOT_PAGES:
        files.append(File(page, ROOT, config["site_dir"], config["use_directory_urls"]))
    for page in REFERENCE.glob("reference/*.md"):
        source = str(page.relative_to(REFERENCE))
        files.append(File(source, str(REFERENCE), config["site_dir"], config["use_directory_urls"]))
    for example in [file for file in files if file.src_uri.startswith("examples/")]:
        files.remove(example)
    return files


def on_page_markdown(markdown, page, config, files):
    """Points links to where the pages are in the site, and links to other files to the repository."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    here = posixpath.dirname(os.path.relpath(page.file.abs_src_path, ROOT))

    def point(match):
        target, anchor = match.group(1), match.group(2) or ""
        path = posixpath.normpath(posixpath.join(here, target))
        if not os.path.exists(os.path.join(ROOT, path)):
            raise PluginError(f"{page.file.abs_src_path} links to {target}, which does not exist")
        if path in ROOT_PAGES:
            source = path
        elif path.startswith("docs/") and os.path.isfile(os.path.join(ROOT, path)):
            source = posixpath.relpath(path, "docs")
        else:
            return f"]({config['repo_url']}/blob/main/{path}{anchor})"
        return f"]({posixpath.relpath(source, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"

    return LINK.sub(point, markdown)


class Anchors(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links = set(), []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            self.ids.add(attrs["id"])
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])


def on_post_build(config):
    pages = {}
    for path in pathlib.Path(config["site_dir"]).rglob("*.html"):
        pages[path] = Anchors()
        pages[path].feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if not anchor or ":" in target:
                continue
            other = pathlib.Path(os.path.normpath(path.parent / target)) if target else path
            if other in pages and anchor not in pages[other].ids:
                broken.append(f"{os.path.relpath(path, config['site_dir'])} links to {link}")
    if broken:
        raise PluginError("there are no such headings:\n" + "\n".join(broken))
