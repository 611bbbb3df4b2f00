"""Hooks of mkdocs (1.4 and later) for the documentation site.

The site includes pages outside docs/, such as the README. Links between pages work in the repository; the hooks map each one to the site. A
link to a file that is not a page, such as a program, leads to a copy of that file in the site.
"""

import logging
import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAGES_BESIDE_DOCS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "hostfiles/README.md")
LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
log = logging.getLogger("mkdocs.hooks.tutti")


def in_repository(page):
    """A page's path relative to the root of the repository."""
    return page if page in PAGES_BESIDE_DOCS else posixpath.join("docs", page)


def in_site(path):
    """The path of a repository's file in the site."""
    return path[len("docs/"):] if path.startswith("docs/") else path


def targets(page, text):
    """(the link as written, the path relative to the root of the repository) of each link to a file."""
    folder = posixpath.dirname(in_repository(page))
    for match in LINK.finditer(text):
        if ":" not in match[2]:
            yield match[2], posixpath.normpath(posixpath.join(folder, match[2]))


def on_config(config):
    """Lists every decision below the overview of decisions."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    for entry in config.nav:
        for position, child in enumerate(entry.get("Design", [])):
            if "Decisions" in child:
                entry["Design"][position] = {"Decisions": [{"Overview": child["Decisions"]}, *(f"decisions/{name}" for name in decisions)]}
    return config


def on_files(files, config):
    known = {file.src_uri for file in files}

    def add(path):
        if in_site(path) not in known:
            known.add(in_site(path))
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))

    for path in PAGES_BESIDE_DOCS:
        add(path)
    for file in list(files.documentation_pages()):
        for _, path in targets(file.src_uri, Path(file.abs_src_path).read_text(encoding="utf-8")):
            if not path.startswith(("docs/", "../")) and (ROOT / path).is_file():
                add(path)
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    if here == "reference.md" and (generated := os.environ.get("TUTTI_REFERENCE")):
        # As HTML, since mkdocs does not have the file: scripts/docs copies it later.
        markdown += f'\n<p><a href="{generated}">All classes and functions</a>, generated from these headers.</p>\n'
    paths = dict(targets(here, markdown))

    def rewrite(match):
        path = paths.get(match[2])
        if path is None:
            return match[0]
        if not (ROOT / path).exists():
            log.warning("%s has a link to %s, which does not exist", in_repository(here), match[2])
            return match[0]
        return match[1] + posixpath.relpath(in_site(path), posixpath.dirname(here) or ".") + match[3]

    return LINK.sub(rewrite, markdown)
