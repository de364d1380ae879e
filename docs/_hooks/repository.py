"""Hooks of the documentation site: pages from elsewhere in the repository, links, and the words of inline code.

A link in a page points to a file of the repository, so that it also works on the host of the repository. In the site
it becomes a link to that file's page; a link to a file without a page, such as code, becomes plain text. A link to a
missing file is a warning, which ends the build.
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
CODE = re.compile(r"(<pre.*?</pre>)|<code>(.*?)</code>", re.DOTALL)
LONGEST_WORD = 30
"""Characters of inline code that fit into a line on a phone; longer words, such as paths, may be broken there."""
log = logging.getLogger("mkdocs.hooks.repository")


def on_config(config: Any) -> Any:
    """Add the decisions to the section "Development"."""
    decisions = []
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ").replace("`", "")
        decisions.append({title: f"decisions/{path.name}"})
    (development,) = (section["Development"] for section in config.nav if "Development" in section)
    development.append({"Decisions": decisions})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add pages and figures from outside of docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for picture in sorted((ROOT / PICTURES).glob("*.png")):
        files.append(File.generated(config, f"figures/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page."""
    place = page.file.src_uri
    source = {page: source for source, page in PAGES.items()}.get(place, f"docs/{place}")
    return LINK.sub(lambda match: site_link(match, source, place), markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Mark each word of inline code, so that lines never break inside of one (see docs/assets/site.css)."""
    return CODE.sub(_with_marked_words, html)


def site_link(match: re.Match[str], source: str, page: str) -> str:
    """Return one link of a page as the site requires it.

    Args:
        match: The link, as `LINK` finds it.
        source: The page's file in the repository.
        page: The page's place in the site.
    """
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
    return f"{image}[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor or ''})"


def _with_marked_words(match: re.Match[str]) -> str:
    block, code = match.groups()
    if block:
        return block
    if "<" in code:  # contains markup
        return match[0]
    words = []
    for word in code.split(" "):
        kind = "word" if len(word) <= LONGEST_WORD else "long word"
        words.append(f'<span class="{kind}">{word}</span>')
    return f"<code>{' '.join(words)}</code>"
