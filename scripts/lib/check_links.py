"""Checks the links of the built site, that every document named in the repository's files exists, and that every source file named in
its documents exists.

    check_links.py ROOT SITE

Does not follow links to other servers.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MENTION = re.compile(r"\bdocs/[\w./-]*\w\.(?:md|png|svg|yaml|sbatch)\b|\bdocs/decisions/\d{4}\b")
SOURCE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:cpp|hpp|py|md|sbatch|yaml|txt))`")


class Page(HTMLParser):
    """Anchors and links of one page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag not in ("script", "link"):  # those of the theme
                self.links.append(value)


def broken_links(site):
    pages = {path: Page(path.read_text(encoding="utf-8", errors="replace")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        # Links of 404.html begin at the server's root; those below reference/ are Doxygen's own.
        if path == site / "404.html" or (site / "reference") in path.parents:
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else None
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} leads nowhere"
            elif parts.fragment and anchors is not None and unquote(parts.fragment) not in anchors:
                yield f"{path.relative_to(site)}: {link} names a heading that {target.relative_to(site)} does not have"


def files_of(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (root / name).is_file()]


def missing_documents(root, names):
    for name in names:
        path = root / name
        if path.suffix in (".png", ".svg"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for mention in MENTION.findall(line):
                if not (root / mention).exists() and not list(root.glob(mention + "-*.md")):
                    yield f"{name}:{number}: {mention} does not exist"


def missing_sources(root, names):
    """Source files named in Markdown, such as `engine/reduce.hpp` or `test/fuzz/parsers.txt`, relative to the root or any folder, that
    do not exist. OPERATION_NAME.cpp is a placeholder. A changelog may name removed files."""
    for page in (name for name in names if name.endswith(".md") and name != "CHANGELOG.md"):
        for number, line in enumerate((root / page).read_text(encoding="utf-8").splitlines(), 1):
            for source in SOURCE.findall(line):
                stem = Path(source).stem
                if not (stem.isupper() and "_" in stem) and not any(name == source or name.endswith("/" + source) for name in names):
                    yield f"{page}:{number}: {source} does not exist"


def unlisted_decisions(root):
    overview = root / "docs" / "decisions" / "README.md"
    for path in sorted(overview.parent.glob("0*.md")):
        if path.name not in overview.read_text(encoding="utf-8"):
            yield f"{overview.relative_to(root)} does not list {path.name}"


def main():
    root, site = (Path(argument).resolve() for argument in sys.argv[1:])
    names = files_of(root)
    faults = [*broken_links(site), *missing_documents(root, names), *missing_sources(root, names), *unlisted_decisions(root)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
