"""The contents of a study: named runs, and how they are executed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError

STUDY = "study.yaml"
Job = tuple[Path, dict[str, Any]]
"""Folder and settings of a run."""
OnEvent = Callable[[str, str, dict[str, Any]], Any]
"""Called with an event (``start``, ``result``, ``retry``, ``fail`` or ``end``), the run's name and its figures."""
TPE = "tpe"
"""The searcher that draws the settings of each run when it starts."""
LONGEST_NAME = 200
"""Bytes of the longest name of a run; file systems allow 255 for the names of folders."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study.

    `env` is the current id. `flags` holds plain values of the flags of ``custom_training``, including the other
    attributes. `sampled` holds the values that a search drew.
    """

    trainer: str
    env: str
    label: str
    seed: int
    flags: dict[str, Any]
    sampled: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the run and of its folder: ``SAC_Hopper-v5_NMER-k=10_s0``."""
        parts = []
        for part in (self.trainer, self.env, self.label, f"s{self.seed}"):
            parts.append(re.sub(r"[^A-Za-z0-9._=-]+", "-", part).strip("-") or "-")
        return "_".join(parts)

    def given(self) -> dict[str, Any]:
        """Return the flags as ``FlagParser.given`` returns them."""
        flags = dict(self.flags)
        arguments = flags.pop("buffer_args", {})
        if arguments:
            flags["buffer_arg"] = list(arguments.items())
        return flags


@dataclass(frozen=True)
class Execution:
    """How runs are executed: the flags of the same names in `interreplay.experiments.flags.study_flags`.

    Only ``cpus_per_trial``, the number of a run's threads, affects results. With 0, `max_concurrent` is as many as the
    CPUs allow. `search` holds the distributions of a sequential search, as texts by setting.
    """

    cpus_per_trial: int = 1
    gpus_per_trial: float = 0.0
    max_concurrent: int = 0
    max_failures: int = 2
    hang_timeout: float = 900.0
    together: int = 0
    scheduler: str = "fifo"
    searcher: str = "random"
    search: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Runs in the order in which they start, and how they are executed."""

    runs: Sequence[PlannedRun]
    execution: Execution

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("the grid is empty: it needs at least one buffer, environment, trainer and seed")
        name, count = Counter(run.name for run in self.runs).most_common(1)[0]
        if count > 1:
            raise UsageError(
                f"{count} runs are called {name!r}; remove duplicates, or distinguish buffers with label: NAME"
            )
        name = max((run.name for run in self.runs), key=len)
        size = len(name.encode())
        if size > LONGEST_NAME:
            raise UsageError(
                f"the name {name[:60]}... of a run has {size} bytes; expected at most {LONGEST_NAME}: add "
                "label: NAME to the buffer, which replaces its settings in the name"
            )

    def to_plain(self) -> dict[str, Any]:
        """Return the study as mappings and lists, for a file."""
        return asdict(self.execution) | {"runs": [{"name": run.name} | asdict(run) for run in self.runs]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Study:
        """Return the inverse of `to_plain`."""
        try:
            runs = []
            execution = dict(plain)
            for entries in execution.pop("runs"):
                run = dict(entries)
                del run["name"]  # follows from the other entries
                runs.append(PlannedRun(**run))
            return cls(runs, Execution(**execution))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"{STUDY} is damaged: {error}") from None


def cpus_per_run(execution: Execution, settings: Iterable[Mapping[str, Any]]) -> int:
    """Return the CPUs of one run, including its env runners; the largest run counts."""
    return execution.cpus_per_trial + max(each["num_workers"] for each in settings)
