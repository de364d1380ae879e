"""What the file of a study, written by cluster_run.py, says about its runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from interreplay.experiments.report.reading.settings import Description

NAME = "study.yaml"
TEXTS = ("name", "trainer", "env", "label")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads YAML without merge keys: a study has none, and nested ones grow exponentially."""

    def flatten_mapping(self, node: Any) -> None:
        """Leave a mapping as it is written."""


def planned(folder: Path) -> dict[str, Description]:
    """Return the runs of a study by the names of their folders, those that have not begun included.

    Args:
        folder: Of the study; of any other folder, or a damaged study, there are none.
    """
    return _read(folder)[0]


def damage(folder: Path) -> str:
    """Return why the file of a study cannot be read, "" where it can, or where there is none."""
    return _read(folder)[1]


def forget() -> None:
    """Read the files again when they are asked for next."""
    _read.cache_clear()


@lru_cache(maxsize=64)
def _read(folder: Path) -> tuple[dict[str, Description], str]:
    path = folder / NAME
    if not path.is_file():
        return {}, ""
    try:
        runs = yaml.load(path.read_text(), Loader=_Loader)["runs"]
        if not isinstance(runs, list):
            raise TypeError(f"runs is a {type(runs).__name__}; expected a list")
        return dict(_planned_run(run) for run in runs), ""
    except Exception as error:  # YAML of any form
        return {}, f"{NAME} is not a study: {' '.join(str(error).split())[:200] or type(error).__name__}"


def _planned_run(run: Any) -> tuple[str, Description]:
    if not isinstance(run, dict):
        raise TypeError(f"a run is a {type(run).__name__}; expected a mapping")
    name, trainer, env, label = (run[key] for key in TEXTS)
    for text in (name, trainer, env, label):
        if not isinstance(text, str | int | float):  # the text of nested aliases may be endless
            raise ValueError(f"a run has a {type(text).__name__} among {', '.join(TEXTS)}; expected text")
    if Path(str(name)).name != str(name) or "\0" in str(name):
        raise ValueError(f"a run is called {name!r}; expected the name of a folder")
    return str(name), Description(str(trainer), str(env), str(label), int(run["seed"]))
