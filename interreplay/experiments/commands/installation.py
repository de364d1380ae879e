"""What this package needs, and whether the Python that runs has it; imports the standard library only."""

from __future__ import annotations

import configparser
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The clone of the repository, where this is one."""
MODULES = {"pyyaml": "yaml"}  # of packages that are imported by another name


def requirements() -> list[str]:
    """Return what setup.cfg asks for, or the installed package's own record of it."""
    config = configparser.ConfigParser()
    if config.read(ROOT / "setup.cfg"):
        return [line for line in config["options"]["install_requires"].splitlines() if line and line[0] != "#"]
    lines = importlib.metadata.requires("interreplay") or []
    return [line for line in lines if "extra ==" not in line]


def distribution(requirement: str) -> str:
    """Return the name at the beginning of a requirement."""
    return "".join(c if c.isalnum() or c in "-_." else " " for c in requirement).split()[0]


def missing() -> list[str]:
    """Return required packages that this Python cannot find."""
    names = [distribution(text) for text in requirements()]
    return [name for name in names if not _found(MODULES.get(name, name))]


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def check_installation(script: str, reports_itself: bool = False) -> None:
    """End the process with one line where this Python lacks what a script needs.

    Args:
        script: The script's file; a virtual environment of `make install` lies beside it.
        reports_itself: The script says what is missing: end only where the environment beside it would have it.

    Raises:
        SystemExit: With exit code 2.
    """
    place = Path(script).resolve()
    beside = place.parent / ".venv"
    other = (beside / "bin" / "python").exists() and beside.resolve() != Path(sys.prefix).resolve()
    if (reports_itself and not other) or not (names := missing()):
        return
    lacks = f"{sys.executable} has no {', '.join(names)}"
    if other:
        here = Path() if place.parent == Path.cwd().resolve() else place.parent
        venv = here / ".venv" / "bin"
        mend = f"source {venv / 'activate'} first, or call {venv / 'python'} {here / place.name}"
    else:
        mend = "make install sets up .venv, which is then activated with: source .venv/bin/activate"
    sys.stderr.write(f"{place.name}: error: {lacks}; {mend}\n")
    raise SystemExit(2)
