"""The folder of a study: ``study.yaml``, a folder per run, ``runs.csv`` and the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError
from interreplay.experiments.studies.remote_folder import SMALL, Store, is_elsewhere
from interreplay.experiments.studies.study import STUDY, PlannedRun, Study
from interreplay.experiments.studies.trial_folder import TrialFolder, write_whole
from interreplay.runs.run_folder import ensure_writable

JOBS = "slurm"
"""Folder in which the scripts for Slurm keep the output of jobs; it exists before the study begins."""


class StudyFolder:
    """The folder of a study's results.

    Args:
        path: The folder.
        store: The remote folder of which it is a copy, or None.
    """

    def __init__(self, path: Path, store: Store | None = None):
        self.path = path
        self.store = store

    @classmethod
    def at(cls, place: str | Path, flag: str = "--output_dir") -> StudyFolder:
        """Return the folder at a path or a URI. Small files of a remote folder are downloaded.

        Args:
            place: The path or URI.
            flag: The flag that names it, for the error message.

        Raises:
            UsageError: The path is a file.
        """
        place = str(place)
        if not is_elsewhere(place):
            path = Path(place.removeprefix("file://"))
            if path.exists() and not path.is_dir():
                raise UsageError(f"{flag} {place} is a file; expected a folder")
            return cls(path)
        store = Store(place)
        store.pull(only=SMALL)
        return cls(store.here, store)

    @property
    def place(self) -> str:
        """The name of the folder on a command line."""
        return self.store.uri if self.store else str(self.path)

    def fetch(self) -> None:
        """Download the state of the runs from a remote folder."""
        if self.store:
            self.store.pull(only=SMALL)

    def publish(self, *names: str) -> None:
        """Upload files of the study with these names to a remote folder."""
        if self.store:
            self.store.push(only=names)

    def trial(self, run: PlannedRun) -> TrialFolder:
        """Return the folder of a run."""
        return TrialFolder(self.path / run.name)

    def begin(self, study: Study) -> Study:
        """Write ``study.yaml``, or continue a folder that already holds the same study.

        Returns:
            The study, whose runs have their names in the folder.

        Raises:
            UsageError: The folder is not writable, or holds another study.
        """
        ensure_writable(self.path, "--output_dir")
        if (self.path / STUDY).exists():
            runs = self.read().runs
            if runs != study.runs:
                raise UsageError(
                    f"--output_dir {self.path} holds another study; choose another folder, or resume that study: "
                    f"--resume {self.place}"
                )
            return replace(study, runs=runs)
        for name in sorted(path.name for path in self.path.iterdir()):
            if not name.startswith(".") and name != JOBS:
                raise UsageError(f"--output_dir {self.path} holds {name!r} and no study; choose a new folder")
        write_whole(self.path / STUDY, _dump(study.to_plain()))
        self.publish(STUDY)
        return study

    def read(self) -> Study:
        """Return the study in the folder.

        Raises:
            UsageError: The folder holds no study.
        """
        try:
            plain = yaml.load((self.path / STUDY).read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except OSError:
            raise UsageError(f"{self.path} holds no {STUDY}; give the folder of a study") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path / STUDY} is damaged: {' '.join(str(error).split())}") from None
        return Study.from_plain(plain)


def _dump(plain: dict[str, Any]) -> str:
    """Return YAML with a line per run."""
    runs = plain.pop("runs")
    lines = [yaml.safe_dump(run, default_flow_style=True, sort_keys=False, width=10**9).rstrip() for run in runs]
    head = yaml.safe_dump(plain, sort_keys=False)
    return head + "runs:\n" + "".join(f"- {line}\n" for line in lines)
