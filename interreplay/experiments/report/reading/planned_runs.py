"""Read the runs planned in ``study.yaml``, which cluster_run.py writes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from interreplay.experiments.report.reading.settings import Description

NAME = "study.yaml"
TEXTS = ("name", "trainer", "env", "label")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML loader without merge keys: studies have none, and nested ones grow exponentially."""

    def flatten_mapping(self, node: Any) -> None:
        """Keep merge keys as they are."""


def planned(folder: Path) -> dict[str, Description]:
    """Return the runs of a study by folder name, including runs without a folder.

    Args:
        folder: Folder of the study; any other folder, and a damaged study, has no runs.
    """
    return _read(folder)[0]


def damage(folder: Path) -> str:
    """Return why the file of a study cannot be read, or ""."""
    return _read(folder)[1]


def forget() -> None:
    """Clear the cache of study files."""
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
    texts = []
    for key in TEXTS:
        value = run[key]
        if not isinstance(value, str | int | float):  # the text of nested aliases can be endless
            raise ValueError(f"a run has a {type(value).__name__} among {', '.join(TEXTS)}; expected text")
        texts.append(str(value))
    name, trainer, env, label = texts
    if Path(name).name != name or "\0" in name:
        raise ValueError(f"a run has the name {name!r}; expected the name of a folder")
    return name, Description(trainer, env, label, int(run["seed"]))
