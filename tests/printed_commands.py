"""The commands and flags that README and docs print."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "cluster_deployment" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(\.venv/bin/)?(python (-m interreplay(\.analysis)?|\S+\.py)|interreplay(-train|-study)?|rllib) ")
INLINE = re.compile(r"`([^`\n]+)`")
FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)")


def printed_commands(text: str) -> list[str]:
    """Return the commands in the code of a page, without those that are abbreviated by an ellipsis.

    In prose, "`interreplay report`" and "`rllib train --config`" are names, not commands.
    """
    lines = []
    for language, block in BLOCK.findall(text):
        if language != "python":
            lines += block.replace("\\\n", " ").splitlines()
    for line in FENCED.sub("", text).splitlines():
        spans = INLINE.findall(line)
        if not line.startswith("|"):
            spans = [span for span in spans if len(span.split()) > 2 and not span.split()[-1].startswith("--")]
        lines += spans
    stripped = [line.strip().removeprefix("$ ") for line in lines]
    return [line for line in stripped if COMMAND.match(line) and " ..." not in line.partition("#")[0]]


def printed_flags(text: str) -> set[str]:
    """Return the names of the flags in the text and the code of a page, with ``_`` between their words."""
    return {name.replace("-", "_") for name in FLAG.findall(text)}
