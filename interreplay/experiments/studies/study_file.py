"""Read study files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import written
from interreplay.experiments.studies.grid import GRID_KEYS, check_keys


def read(path: Path, execution: Mapping[str, Flag]) -> dict[str, Any]:
    """Return the contents of a study file: keys of a grid, ``grids``, and the settings of its execution.

    Args:
        path: The YAML file.
        execution: Flags of the execution by name, which convert their values.

    Raises:
        UsageError: The file cannot be read, or a key or value is invalid.
    """
    try:
        contents = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UsageError(f"study file {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        hint = "in a list, entries with braces need quotes: 'NMER{k: 10}'"
        raise UsageError(f"study file {path} is not valid YAML: {' '.join(str(error).split())}; {hint}") from None
    if not isinstance(contents, dict) or not contents:
        raise UsageError(f"study file {path} holds no study; expected keys such as buffers, envs, trainers and seeds")
    check_keys(str(path), contents, (*GRID_KEYS, "grids", "search", *execution))
    for key in execution.keys() & contents.keys():
        try:
            contents[key] = execution[key].type(written(contents[key]))
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{key} {error}") from None
    return contents
