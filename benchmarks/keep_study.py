"""Keeps what a report needs of a study's runs, compressed: ``python -m benchmarks.keep_study RESULTS FOLDER``.

The figures can be redrawn from it: ``python -m interreplay.analysis FOLDER``. The study goes on from it, too, see
`benchmarks.studies.restore_study`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from interreplay.experiments.studies.trial_folder import FAILED, OVER, TrialFolder

PLAIN = ("status.json",)
STUDY = ("study.yaml", "random_returns.json")
"""What is kept of the study itself."""
MACHINE = ("hostname", "node_ip", "pid")
"""What results say of the machine, which nothing is drawn from."""
FOLDERS = ("output_dir", "local_dir")
"""Where its runs were, by the name of now and the one before."""


def keep(run: Path, folder: Path) -> None:
    """Keep the settings, the state and the results of one run."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = json.loads((run / "params.json").read_text())
    settings |= {name: "results" for name in FOLDERS if name in settings}
    (folder / "params.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    for name in PLAIN:
        shutil.copy(run / name, folder / name)
    lines = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    kept = [json.dumps({k: v for k, v in line.items() if k not in MACHINE}) for line in lines]
    text = "".join(line + "\n" for line in kept)
    (folder / "result.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def is_left(run: Path) -> bool:
    """Return whether a run is not gone on with."""
    return TrialFolder(run).status()["state"] in (*OVER, FAILED)


def main(argv: Sequence[str] | None = None) -> None:
    """Keep every run that is not gone on with: those that are over, and those that failed for good."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keep_study", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a study's folder")
    parser.add_argument("folder", type=Path, help="where to")
    args = parser.parse_args(argv)
    runs = sorted(path.parent for path in args.results.glob("*/result.json") if is_left(path.parent))
    for run in runs:
        keep(run, args.folder / run.name)
    for name in STUDY:
        if (args.results / name).exists():
            shutil.copy(args.results / name, args.folder / name)
    print(f"{len(runs)} runs kept in {args.folder}")


if __name__ == "__main__":
    main()
