"""The folder of a study: ``study.yaml``, a folder per run, ``runs.csv`` and the report."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from interreplay.errors import UsageError
from interreplay.experiments.studies.study import STUDY, PlannedRun, Study
from interreplay.experiments.studies.trial_folder import TrialFolder, write_result
from interreplay.runs.run_folder import ensure_writable

JOBS = "slurm"
"""Folder in which the scripts for Slurm keep the output of jobs; it exists before the study begins."""


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
