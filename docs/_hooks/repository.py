"""Brings pages that live elsewhere in the repository into the site, and mends links between all of them.

A link in a page points to a file as it lies in the repository, so that it works there as well. In the site it becomes a
link to that file's page; of one to a file that has none, such as code, only the text stays. A link to nothing is a
warning, which ends the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "benchmarks/RESULTS.md": "results.md",
    "cluster_deployment/README.md": "clusters.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
PICTURES = "benchmarks/figures"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.repository")


def on_config(config: Any) -> Any:
    """Adds the decisions to the navigation, by their numbers, and the page on performance where there is one."""
    if (ROOT / "docs" / "performance.md").exists():
        config.nav.insert(10, {"Performance": "performance.md"})
    found = {}
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        found[path.read_text().splitlines()[0].removeprefix("# ").replace("`", "")] = f"decisions/{path.name}"
    config.nav.append({"Decisions": [{title: page} for title, page in found.items()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages and the figures that they show."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for picture in sorted((ROOT / PICTURES).glob("*.png")):
        files.append(File.generated(config, f"figures/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Mends the links of a page."""
    here = page.file.src_uri
    source = {page: source for source, page in PAGES.items()}.get(here, f"docs/{here}")
    return LINK.sub(lambda match: mended(match, source, here), markdown)


def mended(match: re.Match[str], source: str, here: str) -> str:
    """One link of a page: `source` is its place in the repository, `here` in the site."""
    image, text, target, anchor = match.groups()
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if place in PAGES:
        found = PAGES[place]
    elif place.startswith(f"{PICTURES}/"):
        found = f"figures/{posixpath.basename(place)}"
    elif place.startswith("docs/"):
        found = place.removeprefix("docs/")
    else:
        if not (ROOT / place).exists():
            log.warning("%s links to %s, which does not exist", source, place)
        return text
    if (ROOT / place).is_dir():
        return text
    return f"{image}[{text}]({posixpath.relpath(found, posixpath.dirname(here) or '.')}{anchor or ''})"
