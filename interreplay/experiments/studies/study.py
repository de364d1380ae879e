"""A study: its named runs, how they are executed, and the folders of the study and of its runs."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError
from interreplay.experiments.flags.presets import TYPES, from_file
from interreplay.experiments.flags.training_flags import RunSettings, resolve_settings
from interreplay.experiments.flags.values import drop_settings
from interreplay.runs.checkpoints import best_checkpoints
from interreplay.runs.run_folder import RESULTS, STATUS, RunFolder, ensure_writable
from interreplay.runs.state_files.disk import replacement

STUDY = "study.yaml"
Job = tuple[Path, dict[str, Any]]
"""Folder and settings of a run."""
TPE = "tpe"
"""The searcher that draws the settings of each run when it starts."""
LONGEST_NAME = 200
"""Bytes of the longest name of a run; file systems allow 255 for the names of folders."""
JOBS = "slurm"
"""Folder in which the scripts for Slurm keep the output of jobs; it exists before the study begins."""
DRAWN = "drawn.json"


class State:
    """The states of a run of a study. Another attempt follows a crashed run; no attempt follows a failed one."""

    WAITING = "waiting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped early"
    OVER = (FINISHED, STOPPED)


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

    @functools.cached_property
    def settings(self) -> RunSettings:
        """The settings of the run."""
        return resolve_settings(self.given())

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
    search: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Runs in the order in which they start, and how they are executed."""

    runs: Sequence[PlannedRun]
    execution: Execution

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("the grid is empty: it needs at least one buffer, environment, trainer and seed")
        names = [run.name for run in self.runs]
        name, count = Counter(names).most_common(1)[0]
        if count > 1:
            raise UsageError(
                f"{count} runs are called {name!r}; remove duplicates, or distinguish buffers with label: NAME"
            )
        name = max(names, key=len)
        size = len(name.encode())
        if size > LONGEST_NAME:
            raise UsageError(
                f"the name {name[:60]}... of a run has {size} bytes; expected at most {LONGEST_NAME}: add "
                "label: NAME to the buffer, which replaces its settings in the name"
            )


def cpus_per_run(execution: Execution, settings: Iterable[Mapping[str, Any]]) -> int:
    """Return the CPUs of one run, including its env runners; the largest run counts."""
    return execution.cpus_per_trial + max(each["num_workers"] for each in settings)


class TrialFolder(RunFolder):
    """A run folder with a status file."""

    def status(self) -> dict[str, Any]:
        """Return the run's ``state`` and its ``reason``, ``failures`` (one line each), and further entries."""
        empty = {"state": State.WAITING, "reason": "", "failures": [], "starts": 0, "seconds": 0.0, "env_steps": 0}
        return empty | (self._read(STATUS, "start that run again", empty) or {})

    @property
    def is_over(self) -> bool:
        """Whether the run has finished or was stopped early."""
        return self.status()["state"] in State.OVER

    def note(self, **changes: Any) -> dict[str, Any]:
        """Change the status. The file is replaced atomically."""
        status = self.status() | changes
        write_whole(self.path / STATUS, json.dumps(status, indent=1) + "\n")
        return status

    def drawn(self) -> dict[str, Any] | None:
        """Return the values that a sequential search drew for the run, None if there are none."""
        return self._read(DRAWN, "draw again", {})

    def _read(self, name: str, purpose: str, empty: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the entries of a file, None if it does not exist; those in `empty` have the types of its values."""
        path = self.path / name
        try:
            found = json.loads(path.read_text())
            if not isinstance(found, dict):
                raise ValueError("expected a mapping")
            for key, usual in empty.items():
                types, expected = TYPES[type(usual)]
                if not isinstance(found.get(key, usual), types):
                    raise ValueError(f"{key} is {found[key]!r}; expected {expected}")
            return found
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}; remove it to {purpose}") from None

    def note_drawn(self, values: dict[str, Any]) -> None:
        """Write the values that a search drew."""
        write_whole(self.path / DRAWN, json.dumps(values) + "\n")

    def note_failure(self, line: str, state: str = State.CRASHED) -> dict[str, Any]:
        """Add a failure to the status. Another attempt may follow the state `State.CRASHED`."""
        return self.note(state=state, failures=[*self.status()["failures"], shorten(line)])

    def clear(self) -> None:
        """Remove the results of an attempt without a checkpoint."""
        for name in (*RESULTS, "params.json", "error.txt"):
            (self.path / name).unlink(missing_ok=True)
        for path in self.path.glob("events.out.*"):
            path.unlink()
        for folder in best_checkpoints(self.path):
            shutil.rmtree(folder, ignore_errors=True)


class StudyFolder:
    """The folder of a study's results."""

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    def at(cls, place: str | Path, flag: str = "--output_dir") -> StudyFolder:
        """Return the folder at a path, which `flag` names in error messages."""
        path = Path(place)
        if "://" in str(place) or (path.exists() and not path.is_dir()):
            raise UsageError(f"{flag} {place} is not a folder; expected a folder that all processes can write to")
        return cls(path)

    def trial(self, run: PlannedRun) -> TrialFolder:
        """Return the folder of a run."""
        return TrialFolder(self.path / run.name)

    def states(self, runs: Iterable[PlannedRun]) -> list[str]:
        """Return the state of each run."""
        return [self.trial(run).status()["state"] for run in runs]

    def check(self, study: Study) -> None:
        """Check that the folder holds neither another study nor other files, without writing anything."""
        names = []
        if self.path.is_dir():
            names = sorted(os.listdir(self.path))  # listed first: another process may begin the same study now
        if (self.path / STUDY).exists():
            if self.read().runs != study.runs:
                raise UsageError(
                    f"--output_dir {self.path} holds another study; choose another folder, or resume that study: "
                    f"--resume {self.path}"
                )
            return
        for name in names:
            if not name.startswith(".") and name != JOBS:
                raise UsageError(f"--output_dir {self.path} holds {name!r} and no study; choose a new folder")

    def begin(self, study: Study) -> None:
        """Write ``study.yaml``, or continue a folder that holds the same study."""
        ensure_writable(self.path, "--output_dir")
        self.check(study)
        if not (self.path / STUDY).exists():
            text = yaml.safe_dump(asdict(study.execution), sort_keys=False) + "runs:\n"
            for run in study.runs:  # one per line
                plain = {"name": run.name} | asdict(run)
                text += "- " + yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=10**9)
            write_result(self.path / STUDY, text)

    def read(self) -> Study:
        """Return the study in the folder."""
        place = f"{self.path / STUDY} is damaged"
        try:
            plain = yaml.load((self.path / STUDY).read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except OSError:
            raise UsageError(f"{self.path} holds no {STUDY}; give the folder of a study") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{place}: {' '.join(str(error).split())}") from None
        if not isinstance(plain, dict) or not isinstance(plain.get("runs"), list):
            raise UsageError(f"{place}: expected a list of runs")
        runs = []
        for entry in plain["runs"]:
            if isinstance(entry, dict):
                entry = drop_settings(entry, ["name"])  # follows from the other entries
            runs.append(from_file(PlannedRun, entry, f"{place}: a run"))
        return Study(runs, from_file(Execution, drop_settings(plain, ["runs"]), place))


def shorten(text: str, most: int = 500) -> str:
    """Return a text on one line. A long text keeps its beginning and its end, since tracebacks end with the reason."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    half = most // 2 - 3
    return f"{text[:half].rsplit(' ', 1)[0]} ... {text[-half:].split(' ', 1)[-1]}"


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: readers see the old or the new contents. Its folder is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacement(path) as file:
        file.write(text)


def write_result(path: Path, text: str) -> None:
    """Write a file of a study with `write_whole`; report a full disk as an error that the user can fix."""
    try:
        write_whole(path, text)
    except OSError as error:
        again = "expected free space in a writable folder; repeat the command to continue"
        raise UsageError(f"{path} cannot be written ({error.strerror}); {again}") from error
