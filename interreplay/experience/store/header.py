"""The header of a store: environment, spaces and columns, in one JSON file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.environments.spaces import space_from_record, space_to_record
from interreplay.errors import UsageError
from interreplay.runs.state_files.disk import replacement

DTYPES = {
    "BOOL": np.dtype(bool),
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
"""Data types of columns by their names in the header, the names of safetensors."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}
REPORTS_SUCCESS = "reports_success"
"""Entry of `Header.about`: whether the environment reported a success or a failure. All stores have the column."""
HEADER = "store.json"
EXPERIENCE = "experience"
"""Name of the store in the folder of a run."""
FORMAT = 1
META = {"step": np.dtype("<i8"), "time": np.dtype("<f8"), "version": np.dtype("<i8")}
"""Columns of a store that are not part of transitions: env step of the run, wall-clock time (Unix seconds), and version
of the policy (number of updates)."""
REQUIRED = ("actions", "rewards", "terminated", "truncated", "episode", *META)
PER_ROW = ("rewards", "terminated", "truncated", "episode", *META)
WIDEST = 1 << 30
"""Maximum number of bytes of one row; larger rows count as damaged."""
_COLUMN = re.compile(
    r"(obs|next_obs|extras)(\.[^\x00]{1,200})?|actions|rewards|terminated|truncated|episode|step|time|version"
)

Columns = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""``{name: (shape of one row, dtype)}``."""


@dataclass(frozen=True)
class Header:
    """Environment, spaces and columns of a store.

    Attributes:
        id: Identifies the store; copies of its folder have the same id.
        env: Id of the environment.
        env_args: Arguments of the environment.
        observation_space: Space of one observation.
        action_space: Space of one action.
        columns: Shape per row and dtype of each column.
        about: Further plain values, such as algorithm, replay method and seed of the run.
    """

    id: str
    env: str
    env_args: dict[str, Any]
    observation_space: gym.Space
    action_space: gym.Space
    columns: Columns
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return sum(width(shape, dtype) for shape, dtype in self.columns.values())

    def write(self, folder: Path) -> None:
        """Write the header; it appears completely or not at all.

        Raises:
            OSError: The file cannot be written.
            ValueError: A space or a value cannot be stored.
        """
        plain = {
            "format": FORMAT,
            "id": self.id,
            "env": self.env,
            "env_args": self.env_args,
            "observation_space": space_to_record(self.observation_space),
            "action_space": space_to_record(self.action_space),
            "columns": {name: [list(shape), NAMES[dtype]] for name, (shape, dtype) in self.columns.items()},
            "about": self.about,
        }
        with replacement(folder / HEADER) as file:
            file.write(json.dumps(plain, indent=1, default=str) + "\n")


def width(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes of a column in one row."""
    return math.prod(shape) * dtype.itemsize


def read_header(folder: Path) -> Header:
    """Return the header of the store in a folder."""
    try:
        plain = json.loads((folder / HEADER).read_text())
        if plain["format"] != FORMAT:
            raise ValueError(f"it has the format {plain['format']}; expected {FORMAT}")
        columns = {name: _column(name, *entry) for name, entry in plain["columns"].items()}
        header = Header(
            id=str(plain["id"]),
            env=str(plain["env"]),
            env_args=dict(plain["env_args"]),
            observation_space=space_from_record(plain["observation_space"]),
            action_space=space_from_record(plain["action_space"]),
            columns=columns,
            about=dict(plain["about"]),
        )
        for name in REQUIRED:
            if name not in columns:
                raise ValueError(f"it lacks the column {name}")
        if header.row_bytes > WIDEST:
            raise ValueError(f"it has rows of {header.row_bytes:,} bytes")
    except OSError as error:
        raise UsageError(f"experience store {folder} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError) as error:
        raise UsageError(f"experience store {folder} has a damaged {HEADER}: {' '.join(str(error).split())}") from None
    return header


def _column(name: str, shape: Any, kind: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if not _COLUMN.fullmatch(name):
        raise ValueError(f"unknown column {name!r}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size <= WIDEST for size in shape):
        raise ValueError(f"the column {name} has the shape {shape!r}")
    if kind not in DTYPES or (name in META and DTYPES[kind] != META[name]) or (name in PER_ROW and shape):
        raise ValueError(f"the column {name} has the type {kind!r} and the shape {shape}")
    return tuple(shape), DTYPES[kind]
