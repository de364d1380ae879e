"""What a study is made of: runs with names, and how they are carried out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from interreplay.errors import UsageError
from interreplay.runs.run_folder import check_name

STUDY = "study.yaml"
TPE = "tpe"
"""The searcher that decides one run after another."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study.

    Attributes:
        trainer: The algorithm.
        env: The environment's current id.
        label: What the replay method and its settings are called in tables.
        seed: The seed.
        flags: Flags of ``custom_training`` and their values, those above included; plain values only.
        sampled: What a search drew for it.
        called: Its name where that is another one than is made today; studies keep the names that they began with.
    """

    trainer: str
    env: str
    label: str
    seed: int
    flags: dict[str, Any]
    sampled: dict[str, Any] = field(default_factory=dict)
    called: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """Its name, and that of its folder: ``SAC_Hopper-v5_NMER-k=10_s0``."""
        return self.called or "_".join(map(_in_a_name, (self.trainer, self.env, self.label, f"s{self.seed}")))

    def given(self) -> dict[str, Any]:
        """Return the flags as ``FlagParser.given`` would have returned them."""
        flags = dict(self.flags)
        arguments = flags.pop("buffer_args", {})
        return flags | ({"buffer_arg": list(arguments.items())} if arguments else {})


@dataclass(frozen=True)
class Execution:
    """How runs are carried out; changing it changes no result but for ``cpus_per_trial``, a run's threads.

    Attributes:
        cpus_per_trial: CPUs, and so threads, of the process that learns; each env runner takes one more.
        gpus_per_trial: GPUs of that process; may be a fraction.
        max_concurrent: Runs at a time; 0 for as many as there are CPUs for.
        max_failures: How often a run that fails is tried again from its checkpoint.
        hang_timeout: Seconds without an env step after which a run counts as hung.
        scheduler: What ends runs early, see `interreplay.experiments.tune.hyperparameter_search.scheduler`.
        searcher: Who draws searched settings: ``random`` all of them before the study begins, ``tpe`` one run after
            another, by what came out of those before.
        search: The distributions of a search that draws one run after another, as texts by setting.
    """

    cpus_per_trial: int = 1
    gpus_per_trial: float = 0.0
    max_concurrent: int = 0
    max_failures: int = 2
    hang_timeout: float = 900.0
    scheduler: str = "fifo"
    searcher: str = "random"
    search: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Runs in the order in which they are started, and how."""

    runs: Sequence[PlannedRun]
    execution: Execution

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("the grid is empty: it needs at least one buffer, environment, trainer and seed")
        check_names(self.runs)

    def to_plain(self) -> dict[str, Any]:
        """Return it as mappings and lists, for a file."""
        runs = [{"name": run.name} | asdict(run) for run in self.runs]
        return asdict(self.execution) | {"runs": [{k: v for k, v in run.items() if k != "called"} for run in runs]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Study:
        """Return the inverse of `to_plain`.

        Raises:
            UsageError: It is something else.
        """
        try:
            runs = [
                PlannedRun(**{("called" if key == "name" else key): value for key, value in run.items()})
                for run in plain["runs"]
            ]
            for run in runs:
                check_name(run.name, f"{STUDY}: the run")
            return cls(runs, Execution(**{key: value for key, value in plain.items() if key != "runs"}))
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{STUDY} is damaged: {error}") from None


def _in_a_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", part).strip("-") or "-"


def cpus_per_run(execution: Execution, settings: Iterable[Mapping[str, Any]]) -> int:
    """Return the CPUs that a run takes, those of its env runners included, where all runs take alike."""
    return execution.cpus_per_trial + max(each["num_workers"] for each in settings)


def check_names(runs: Iterable[PlannedRun]) -> None:
    """Refuse runs that would share a folder.

    Raises:
        UsageError: Two have one name.
    """
    counts = Counter(run.name for run in runs)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise UsageError(
            f"{count} runs are called {name!r}; drop what is listed twice, or tell buffers apart with label: NAME"
        )
