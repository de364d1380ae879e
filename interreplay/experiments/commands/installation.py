"""Required packages, and whether this Python has them; imports the standard library only."""

from __future__ import annotations

import configparser
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""Root of the repository, if this is a clone."""
MODULES = {"pyyaml": "yaml", "scikit-learn": "sklearn"}  # import names that differ from the package names


def requirements() -> list[str]:
    """Return the requirements in setup.cfg, or in the metadata of the installed package."""
    config = configparser.ConfigParser()
    if config.read(ROOT / "setup.cfg"):
        return config["options"]["install_requires"].split("\n")[1:]
    lines = importlib.metadata.requires("interreplay") or []
    return [line for line in lines if "extra ==" not in line]


def distribution(requirement: str) -> str:
    """Return the name at the beginning of a requirement."""
    return re.split(r"[^\w.-]", requirement)[0]


def check_installation(script: str, reports_itself: bool = False) -> None:
    """Exit with code 2 and one line if this Python lacks packages that a script requires.

    A script that `reports_itself` that packages are missing continues, unless the environment of `make install` next to
    it exists and is not the running one.
    """
    place = Path(script).resolve()
    environment = place.parent / ".venv"
    other = (environment / "bin" / "python").exists() and environment.resolve() != Path(sys.prefix).resolve()
    if reports_itself and not other:
        return
    missing = []
    for text in requirements():
        name = distribution(text)
        if importlib.util.find_spec(MODULES.get(name, name)) is None:
            missing.append(name)
    if not missing:
        return
    fix = "make install sets up .venv, which is then activated with: source .venv/bin/activate"
    if other:
        here = place.parent
        if here == Path.cwd():
            here = Path()
        binaries = here / ".venv" / "bin"
        fix = f"source {binaries / 'activate'} first, or call {binaries / 'python'} {here / place.name}"
    sys.stderr.write(f"{place.name}: error: {sys.executable} has no {', '.join(missing)}; {fix}\n")
    raise SystemExit(2)
