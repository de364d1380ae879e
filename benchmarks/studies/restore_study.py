"""Prepare to resume a study from kept results: ``python -m benchmarks.studies.restore_study FOLDER RESULTS``.

Unpack the finished runs that `benchmarks.keep_study` kept. ``cluster_run.py --resume RESULTS`` then executes only the
missing runs, on any machine. Unfinished runs start again, because their checkpoints are not kept. Paths in a study,
such as that of offline data, are relative to the current folder.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.keep_study import PLAIN, STUDY
from benchmarks.measure import existing
from interreplay.experiments.studies.study import State, TrialFolder


def restore(run: Path, folder: Path) -> bool:
    """Unpack a finished run unless `folder` exists, and return whether the run is finished."""
    if TrialFolder(run).status()["state"] not in State.OVER:
        return False
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / "result.json").write_bytes(gzip.decompress((run / "result.json.gz").read_bytes()))
        for name in ("params.json", *PLAIN):
            shutil.copy(run / name, folder / name)
    return True


def main(argv: Sequence[str] | None = None) -> None:
    """Unpack all finished runs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.restore_study", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=existing, help="folder of the kept results")
    parser.add_argument("results", type=Path, help="output folder")
    args = parser.parse_args(argv)
    runs = sorted(path.parent for path in args.folder.glob("*/result.json.gz"))
    restored = [restore(run, args.results / run.name) for run in runs]
    for name in STUDY:
        if (args.folder / name).exists():
            shutil.copy(args.folder / name, args.results / name)
    print(f"{sum(restored)} of {len(runs)} runs restored in {args.results}")


if __name__ == "__main__":
    main()
