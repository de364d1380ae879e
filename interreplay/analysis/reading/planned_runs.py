"""What the file of a study, written by cluster_run.py, says about its runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import yaml

from interreplay.analysis.reading.settings import Description

NAME = "study.yaml"


@lru_cache(maxsize=64)
def planned(folder: Path) -> dict[str, Description]:
    """Return the runs of a study by the names of their folders, those that have not begun included.

    Args:
        folder: Of the study; of any other folder there are none.

    Raises:
        ValueError: The file is no study's.
    """
    path = folder / NAME
    if not path.is_file():
        return {}
    try:
        runs = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["runs"]
        return {
            str(run["name"]): Description(str(run["trainer"]), str(run["env"]), str(run["label"]), int(run["seed"]))
            for run in runs
        }
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise ValueError(f"{NAME} is no study's: {' '.join(str(error).split())}") from None
