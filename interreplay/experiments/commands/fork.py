"""Continue a checkpoint of a run under several replay methods or settings, and compare them. ``--help`` lists flags."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from interreplay.environments.relabeled import WRAPPER
from interreplay.errors import UsageError
from interreplay.experiments.commands.study import run_all
from interreplay.experiments.commands.study_checks import check, check_memory, check_resources
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.experiments.flags.run_flags import IN_STUDIES, METHOD
from interreplay.experiments.flags.training_flags import default_settings
from interreplay.experiments.flags.values import split
from interreplay.experiments.studies.grid import as_seeds, expand
from interreplay.experiments.studies.results_table import align
from interreplay.experiments.studies.study import Execution, State, Study, StudyFolder, write_result
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import WholeNumber
from interreplay.runs import state_files
from interreplay.runs.checkpoints import parse_steps
from interreplay.runs.results.intervals import compare_seeds
from interreplay.runs.results.reader import curve
from interreplay.runs.resume import as_plain
from interreplay.runs.run_folder import find_checkpoints, read_settings
from interreplay.runs.state_files.disk import hold

Curve = list[tuple[int, float]]
MEASURES = {"mean": "mean return after the fork", "final": "final return"}
PAIRED = "paired.csv"
FIGURE = "paired.png"
OF_PARENT = {
    *("seed", "preset", "total_env_steps", "max_time", "stop_at_return", "stop_without_improvement", "output_dir"),
    *("fork_from", "keep_checkpoints_at", "keep_experience", "wandb", "mlflow", "video_to_tensorboard", "quiet"),
}
"""Settings of the parent that arms do not inherit."""


def main(argv: Sequence[str] | None = None) -> int:
    """Fork a run; return the exit code of the study."""
    return make_parser().run(act, argv)


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(
        description="Continue one checkpoint under several replay methods, as a study with differences paired by seed.",
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="folder of a run or of a checkpoint")
    text = "env step of the fork: the newest checkpoint at or before it is used (default: the newest checkpoint)"
    add("--at", type=WholeNumber(0), metavar="N", help=text)
    text = "replay methods, such as Uniform,NMER{k: 10} or 'NMER{label: fast, settings: {updates_per_step: 2}}'; the "
    add("--arms", type=split, required=True, metavar="METHOD,...", help=text + "first is the baseline")
    text = "number of seeds, or a list such as 0,3 or [5] (default: 5)"
    add("--seeds", type=split, default=["5"], metavar="N", help=text)
    add("--steps", type=WholeNumber(1), required=True, metavar="N", help="env steps after the fork")
    add("--output_dir", type=Path, required=True, metavar="DIR", help="folder of the study")
    add("--max_concurrent", type=WholeNumber(1), metavar="N", help="parallel runs (default: as many as the CPUs allow)")
    add("--cpus_per_trial", type=WholeNumber(1), default=1, metavar="N", help="CPUs and threads of a run (default: 1)")
    return parser


def act(given: argparse.Namespace) -> int:
    """Run the study and write the report; return the exit code."""
    checkpoint = find_checkpoint(given.run, given.at)
    parent = read_settings(checkpoint)
    step = read_steps(checkpoint)
    study = plan_arms(given, checkpoint, parent, step)
    folder = StudyFolder.at(str(given.output_dir))
    numbers = range(len(study.runs))
    sizes = check(study, numbers, here=True)
    check_resources(study.execution, study.runs, alone=False)
    check_memory(study.execution, study.runs, sizes)
    folder.begin(study)
    print(f"forking {checkpoint} at step {step:,}: {len(study.runs)} runs of {given.steps:,} steps", flush=True)
    with hold(folder.path, "the study"):
        code = run_all(study, folder, "local", again="the same command")
    report(study, folder, checkpoint.parent, step)
    return code


def find_checkpoint(run: Path, at: int | None) -> Path:
    """Return the newest checkpoint of a run at or before an env step."""
    found = find_checkpoints(run, "RUN")
    for path in found:  # the newest first
        if at is None or parse_steps(path) <= at:
            return path
    steps = ", ".join(f"{step:,}" for step in sorted(set(map(parse_steps, found))))
    raise UsageError(
        f"--at {at}: {run} has no checkpoint at or before this step, only at {steps}; --keep_checkpoints_at of a run "
        "keeps checkpoints to fork from"
    )


def read_steps(checkpoint: Path) -> int:
    """Return the env steps of a checkpoint, which may have been renamed."""
    steps = parse_steps(checkpoint)
    if steps < 0:
        from interreplay.rllib.algorithms.loop import LOOP_STATE  # imports Ray
        from interreplay.rllib.checkpoints import ALGORITHM

        steps = state_files.load(checkpoint, ALGORITHM, LOOP_STATE, "env_steps")
    return steps


def plan_arms(given: argparse.Namespace, checkpoint: Path, parent: Mapping[str, Any], step: int) -> Study:
    """Return the study of the arms."""
    trainer = str(parent["trainer"])
    if ALGORITHMS[trainer].unrolls:
        raise UsageError(
            f"{checkpoint} was made by {trainer}, which learns from unrolls; expected replayed transitions"
        )
    if parent.get("updates") is not None:
        raise UsageError(f"{checkpoint} has learned from recorded data alone; expected a run with env steps")
    settings = read_inherited_settings(parent) | {
        "preset": presets.NONE,
        "total_env_steps": step + given.steps,
        "fork_from": str(checkpoint),
    }
    contents = {
        "buffers": given.arms,
        "envs": [parent["env"]],
        "trainers": [trainer],
        "seeds": as_seeds(given.seeds),
        "settings": settings,
    }
    execution = Execution(cpus_per_trial=given.cpus_per_trial, max_concurrent=given.max_concurrent or 0)
    return Study(expand(contents), execution)


def read_inherited_settings(parent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that differ from the defaults, without its replay method."""
    usual = default_settings(str(parent["trainer"]))
    found = {}
    for name, value in parent.items():
        if name not in usual or name not in IN_STUDIES - OF_PARENT - METHOD:
            continue
        if name == "wrapper" and parent.get("relabel"):  # --relabel adds a wrapper
            value = [wrapper for wrapper in value if wrapper["type"] != WRAPPER]
        if as_plain(value) != as_plain(usual[name]):
            found[name] = value
    return found


def report(study: Study, folder: StudyFolder, parent: Path, step: int) -> None:
    """Print the paired differences of the finished runs, and write them with a figure."""
    labels = list(dict.fromkeys(run.label for run in study.runs))
    folders = {}
    for run in sorted(study.runs, key=lambda run: labels.index(run.label)):  # the first arm is the one to compare with
        if folder.trial(run).status()["state"] == State.FINISHED:
            folders[run.label, run.seed] = folder.trial(run).path
    arms = read_arms(folders, step)
    if labels[0] not in arms:
        print(f"no run of {labels[0]}, the arm to compare with, has finished with results after the fork")
        return
    rows = make_rows(arms)
    print(f"\n{align(make_table(rows), right={1, 2, 3, 4, 5}, width=140)}")
    left = len(study.runs) - len(folders)
    if left:
        print(f"without {left} of {len(study.runs)} runs, which have not finished")
    print("differences of runs with equal seeds; in brackets: 95 % interval of Student's t. One parent is one sample:")
    print("fork several runs before generalizing.")
    write_result(folder.path / PAIRED, rows.to_csv(index=False))
    written = f"also in {folder.path / PAIRED}"
    if draw(arms, curve(parent), step, folder.path / FIGURE):
        written = f"{written}, {folder.path / FIGURE}"
    print(written)


def read_arms(folders: Mapping[tuple[str, int], Path], step: int) -> dict[str, dict[int, Curve]]:
    """Return the curves after the fork at env step `step`, by arm and seed; runs without results are left out."""
    found: dict[str, dict[int, Curve]] = {}
    for (arm, seed), folder in folders.items():
        points = [point for point in curve(folder) if point[0] > step]
        if points:
            found.setdefault(arm, {})[seed] = points
    return found


def make_rows(arms: Mapping[str, Mapping[int, Curve]]) -> pd.DataFrame:
    """Return a row per run: arm, seed, last env step and `MEASURES`."""
    rows = []
    for arm, curves in arms.items():
        for seed, points in sorted(curves.items()):
            mean = float(np.array(points)[:, 1].mean())
            rows.append({"arm": arm, "seed": seed, "step": points[-1][0], "mean": mean, "final": points[-1][1]})
    return pd.DataFrame(rows)


def make_table(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the lines of a table: each arm with its means, and its differences from the first arm."""
    first = rows["arm"].iloc[0]
    lines: list[tuple[str, ...]] = [("arm", "seeds", *MEASURES.values(), *(f"{n} - {first}" for n in MEASURES))]
    by_seed = rows.set_index("seed")
    for arm, values in by_seed.groupby("arm", sort=False):
        means: list[str] = []
        differences: list[str] = []
        for name in MEASURES:
            means.append(f"{values[name].mean():,.1f}")
            compared = by_seed.loc[by_seed["arm"] == first, name]
            differences.append("" if arm == first else str(compare_seeds(dict(values[name]), dict(compared))))
        lines.append((str(arm), str(len(values)), *means, *differences))
    return lines


def draw(arms: Mapping[str, Mapping[int, Curve]], parent: Curve, step: int, file: Path) -> bool:
    """Draw the parent's curve up to the fork in gray, and the arms after it; return whether Matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    panel = figure.subplots()
    past = [point for point in parent if point[0] <= step]
    if past:
        panel.plot(*zip(*past, strict=True), color="0.6", label="parent")
    for number, (arm, curves) in enumerate(arms.items()):
        for points in curves.values():
            panel.plot(*zip(*points, strict=True), color=f"C{number}", linewidth=0.9, alpha=0.8)
        panel.plot([], color=f"C{number}", label=arm)
    panel.axvline(step, color="0.8", linewidth=0.8)
    panel.set(xlabel="env steps", ylabel="return", title=f"Arms after the fork at step {step:,}: one line per seed")
    panel.legend(frameon=False)
    figure.savefig(file, dpi=150)
    return True
