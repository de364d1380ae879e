"""Required packages, and whether this Python has them; imports the standard library only."""

from __future__ import annotations

import configparser
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The clone of the repository, if this is one."""
MODULES = {"pyyaml": "yaml", "scikit-learn": "sklearn"}  # names by which packages are imported


def requirements() -> list[str]:
    """Return the requirements in setup.cfg, or in the metadata of the installed package."""
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
    """Exit with one line if this Python lacks packages that a script requires.

    Args:
        script: The script's file; the virtual environment of `make install` is next to it.
        reports_itself: Whether the script reports missing packages; exit only if that environment has them.

    Raises:
        SystemExit: With exit code 2.
    """
    place = Path(script).resolve()
    environment = place.parent / ".venv"
    other = (environment / "bin" / "python").exists() and environment.resolve() != Path(sys.prefix).resolve()
    if (reports_itself and not other) or not (names := missing()):
        return
    lacks = f"{sys.executable} has no {', '.join(names)}"
    if other:
        here = Path() if place.parent == Path.cwd().resolve() else place.parent
        venv = here / ".venv" / "bin"
        fix = f"source {venv / 'activate'} first, or call {venv / 'python'} {here / place.name}"
    else:
        fix = "make install sets up .venv, which is then activated with: source .venv/bin/activate"
    sys.stderr.write(f"{place.name}: error: {lacks}; {fix}\n")
    raise SystemExit(2)
