"""The folder of a study, with ``study.yaml``, ``runs.csv`` and the report, and the folders of its runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError
from interreplay.experiments.studies.study import STUDY, PlannedRun, Study
from interreplay.runs.checkpoints import best_checkpoints
from interreplay.runs.run_folder import RESULTS, STATUS, RunFolder, ensure_writable
from interreplay.runs.state_files.disk import replacement

JOBS = "slurm"
"""Folder in which the scripts for Slurm keep the output of jobs; it exists before the study begins."""
DRAWN = "drawn.json"
WAITING = "waiting"
RUNNING = "running"
INTERRUPTED = "interrupted"
CRASHED = "crashed"
FINISHED = "finished"
FAILED = "failed"
STOPPED = "stopped early"
OVER = (FINISHED, STOPPED)


class TrialFolder(RunFolder):
    """A run folder with a status file."""

    def status(self) -> dict[str, Any]:
        """Return the run's ``state``, ``failures`` (one line each), ``starts``, ``seconds`` and ``env_steps``."""
        empty = {"state": WAITING, "failures": [], "starts": 0, "seconds": 0.0, "env_steps": 0}
        return empty | (self._read(STATUS, "start that run again") or {})

    @property
    def is_over(self) -> bool:
        """Whether the run has finished or was stopped early."""
        return self.status()["state"] in OVER

    def note(self, **changes: Any) -> dict[str, Any]:
        """Change the status. The file is replaced atomically."""
        status = self.status() | changes
        write_whole(self.path / STATUS, json.dumps(status, indent=1) + "\n")
        return status

    def drawn(self) -> dict[str, Any] | None:
        """Return the values that a sequential search drew for the run, None if there are none."""
        return self._read(DRAWN, "draw again")

    def _read(self, name: str, purpose: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}; remove it to {purpose}") from None

    def note_drawn(self, values: dict[str, Any]) -> None:
        """Write the values that a search drew."""
        write_whole(self.path / DRAWN, json.dumps(values) + "\n")

    def note_failure(self, line: str, state: str = CRASHED) -> dict[str, Any]:
        """Add a failure to the status. Another attempt may follow the state `CRASHED`."""
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

    def check(self, study: Study) -> None:
        """Check that the folder can hold a study, without writing anything.

        Raises:
            UsageError: The folder holds another study, or other files.
        """
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
            plain = study.to_plain()
            runs = plain.pop("runs")
            text = yaml.safe_dump(plain, sort_keys=False) + "runs:\n"
            for run in runs:  # one per line
                text += "- " + yaml.safe_dump(run, default_flow_style=True, sort_keys=False, width=10**9)
            write_result(self.path / STUDY, text)

    def read(self) -> Study:
        """Return the study in the folder."""
        try:
            plain = yaml.load((self.path / STUDY).read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except OSError:
            raise UsageError(f"{self.path} holds no {STUDY}; give the folder of a study") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path / STUDY} is damaged: {' '.join(str(error).split())}") from None
        return Study.from_plain(plain)


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
