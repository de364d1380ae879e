"""Keep the parts of a study's runs that a report needs, compressed: ``python -m benchmarks.keep_study RESULTS FOLDER``.

The figures can be redrawn from it: ``python -m interreplay.analysis FOLDER``. `benchmarks.studies.restore_study`
resumes the study from it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import existing
from interreplay.experiments.flags.values import drop_settings
from interreplay.experiments.studies.study import State, TrialFolder

PLAIN = ("status.json",)
STUDY = ("study.yaml", "random_returns.json")
"""Files of the study itself that are kept."""
MACHINE = ("hostname", "node_ip", "pid")
"""Entries of results that describe the machine and are dropped."""


def keep(run: Path, folder: Path) -> None:
    """Keep the settings, the state and the results of one run."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = json.loads((run / "params.json").read_text())
    settings["output_dir"] = "results"
    (folder / "params.json").write_text(make_relative(json.dumps(dict(sorted(settings.items())), indent=1)) + "\n")
    for name in PLAIN:
        shutil.copy(run / name, folder / name)
    text = ""
    for line in (run / "result.json").read_text().splitlines():
        text += json.dumps(drop_settings(json.loads(line), MACHINE)) + "\n"
    (folder / "result.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def make_relative(text: str) -> str:
    """Return a text in which paths below the current folder are relative."""
    return text.replace(f"{Path.cwd()}/", "")


def main(argv: Sequence[str] | None = None) -> None:
    """Keep every run that will not be resumed: finished runs and runs that failed permanently."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keep_study", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=existing, help="a study's folder")
    parser.add_argument("folder", type=Path, help="output folder")
    args = parser.parse_args(argv)
    runs = []
    for path in sorted(args.results.glob("*/result.json")):
        if TrialFolder(path.parent).status()["state"] in (*State.OVER, State.FAILED):
            keep(path.parent, args.folder / path.parent.name)
            runs.append(path.parent)
    for name in STUDY:
        if (args.results / name).exists():
            (args.folder / name).write_text(make_relative((args.results / name).read_text()))
    print(f"{len(runs)} runs kept in {args.folder}")


if __name__ == "__main__":
    main()
