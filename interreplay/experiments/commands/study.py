"""A study: a grid of runs from a study file or from flags, several at a time. ``--help`` lists the flags."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.commands.study_checks import check, check_execution, check_memory, check_resources
from interreplay.experiments.commands.train import requested_list
from interreplay.experiments.flags.config_files import merge_config
from interreplay.experiments.flags.original_flags import RENAMED
from interreplay.experiments.flags.reading import FlagParser, RaisingFlagParser, by_name, read_programs
from interreplay.experiments.flags.replay_flags import find_methods
from interreplay.experiments.flags.run_flags import COMMON, FLAGS, GROUPS, IN_STUDIES
from interreplay.experiments.flags.study_flags import EXECUTION, GRID, SEARCH, STUDY_GROUPS
from interreplay.experiments.flags.values import format_value, select_settings
from interreplay.experiments.process.machine import choose_device, count_gpus
from interreplay.experiments.process.outcome import program
from interreplay.experiments.process.progress import StudyReporter
from interreplay.experiments.process.signals import RESUMABLE
from interreplay.experiments.studies import grid, results_table
from interreplay.experiments.studies.results_table import WIDTH
from interreplay.experiments.studies.study import (
    TPE,
    Execution,
    PlannedRun,
    State,
    Study,
    StudyFolder,
    TrialFolder,
    shorten,
)
from interreplay.runs.checkpoints import parse_steps
from interreplay.runs.resume import as_plain
from interreplay.runs.run_folder import check_name, find_checkpoints
from interreplay.runs.state_files.disk import hold

NOT_WHAT = {"list_buffers", "list_presets", "output_dir", *EXECUTION} - {"searcher"}
WHAT = {"study", "inputs", "resume", "searcher", *GRID, *SEARCH, *FLAGS} - NOT_WHAT
"""Flags that define the runs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a study.

    Returns:
        The exit code: 0 if all runs are finished, 1 if some failed permanently, 2 after a usage error, 75 after SIGTERM
        or ``max_time`` with everything saved (the same command resumes), 130 after Ctrl-C.
    """
    return make_parser().run(act, argv)


def make_parser() -> FlagParser:
    """Return the parser of the study's own flags and those of ``custom_training`` that apply to every run."""
    groups = dict(STUDY_GROUPS)
    common = set(COMMON)
    for flags in STUDY_GROUPS.values():
        common.update(flag.name for flag in flags)
    for title, flags in GROUPS.items():
        groups[f"settings of every run: {title}"] = tuple(flag for flag in flags if flag.name in IN_STUDIES)
    parser = FlagParser(
        groups,
        instead=RENAMED | by_name(read_programs()["renamed_in_studies"]),
        hint=argument_hint,
        common=common,
        usage="%(prog)s [STUDY.yaml] [FLAGS]",
        description="Train every combination of buffers, environments, algorithms and seeds.",
    )
    parser.add_argument("study", nargs="?", metavar="STUDY.yaml", help="study file")
    return parser


def argument_hint(name: str, value: str, given: Mapping[str, Any]) -> str:
    """Return how to set an argument of a replay method that was given as a flag, "" for other words."""
    methods = find_methods(name)
    if not methods:
        return ""
    named = [entry for entry in given.get("buffers", ()) if entry in methods]
    method = (named or methods)[0]
    return f"use --buffers '{method}{{{name}: {value or 'VALUE'}}}' to set {name}"


def act(given: Mapping[str, Any]) -> int:
    """Run the command; return the exit code."""
    if listed := requested_list(given):
        print(listed)
        return 0
    if not WHAT & given.keys():
        raise UsageError(
            "nothing to run; expected a study file, or flags such as --buffers and --envs, for example: "
            f"{program()} --buffers Uniform,NMER --envs Hopper-v5 --seeds 5 (--help lists the flags)"
        )
    if "resume" in given:
        more = [f"--{name}" for name in sorted(WHAT & given.keys() - {"resume", "study"})]
        if "study" in given:
            more.insert(0, given["study"])
        if more:
            raise UsageError(f"--resume reads the study from its folder; leave out {', '.join(more)}")
        folder = StudyFolder.at(given["resume"], "--resume")
        study = folder.read()
    else:
        study, folder = read_new(given)
    study = replace(study, execution=replace(study.execution, **select_settings(given, EXECUTION)))
    alone = "run" in given
    address = given.get("address") or os.environ.get("RAY_ADDRESS", "local")
    numbers = range(len(study.runs))
    if given.get("count"):
        check(study, numbers, here=False)
        check_execution(study, given.get("run"), address)
        check_resources(study.execution, study.runs, alone, job=(given.get("job_cpus"), given.get("job_gpus")))
        if "output_dir" in given:
            folder.check(study)
        print(len(study.runs))
        return 0
    if alone:
        if given["run"] not in numbers:
            raise UsageError(f"--run {given['run']}: the study has {len(study.runs)} runs, 0 to {numbers[-1]}")
        numbers = range(given["run"], given["run"] + 1)
    left = {}
    for number in numbers:
        run = study.runs[number]
        if not folder.trial(run).is_over:
            left[number] = run
    sizes = check(study, left, here=address == "local", folder=folder)
    check_execution(study, given.get("run"), address)
    if address == "local" and left:
        check_resources(study.execution, left.values(), alone)
        if not alone:
            check_memory(study.execution, left.values(), sizes)
    if given.get("dry_run"):
        folder.check(study)
        lines = [("", "run", "steps", "state")]
        for number, run in enumerate(study.runs):
            steps = f"{run.settings.total_env_steps:,}"
            lines.append((str(number), run.name, steps, folder.trial(run).status()["state"]))
        print(results_table.align(lines, right={0, 2}))
        return 0
    folder.begin(study)
    if alone:
        return run_one(study, folder, given["run"])
    with hold(folder.path, "the study"):
        return run_all(study, folder, address)


def read_new(given: Mapping[str, Any]) -> tuple[Study, StudyFolder]:
    """Return the study of a study file, an inputs file or flags."""
    settings = select_settings(given, IN_STUDIES)
    if "inputs" in given:
        return read_inputs(given, settings)
    contents: dict[str, Any] = {}
    if "study" in given:
        contents = grid.read_study_file(Path(given["study"]))
    home = Path(given.get("study", "study")).stem
    check_name(home, "the study file's name")
    contents |= select_settings(given, GRID)
    if "seeds" in given:
        contents["seeds"] = grid.as_seeds(given["seeds"])
    flags = grid.convert_settings(as_plain(settings))
    contents["settings"] = grid.convert_settings(contents.get("settings")) | flags
    runs = grid.expand(contents)
    for own in contents.get("grids", []):
        for name in GRID:
            if name in given and name in own:
                raise UsageError(f"--{name}: a grid of {given['study']} also sets {name}; remove one of them")
    for run in runs:
        for name, value in flags.items():
            if run.flags[name] != value:
                own = format_value(run.flags[name])
                raise UsageError(
                    f"--{name} {format_value(value)}: a grid or an entry sets {name} {own} for {run.name}; "
                    "remove one of them"
                )
    return plan(runs, contents, given, Path("results", home))


def read_inputs(given: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[Study, StudyFolder]:
    """Return the study of an inputs file of the original work."""
    more = sorted({"study", *GRID} & given.keys() | settings.keys())
    if more:
        raise UsageError(f"--inputs defines the runs; put {', '.join(more)} into the file, or leave it out")
    parser = RaisingFlagParser(GROUPS, complete=merge_config, prog="inputs")
    runs, folders = grid.read_inputs_file(given["inputs"], parser.given)
    if "output_dir" not in given and len(set(folders)) > 1:
        raise UsageError(f"{given['inputs']} names {len(set(folders))} folders; choose one with --output_dir")
    return plan(runs, {}, given, Path(*folders[:1] or ["results"]))


def plan(
    runs: list[PlannedRun], contents: Mapping[str, Any], given: Mapping[str, Any], home: Path
) -> tuple[Study, StudyFolder]:
    """Return a study of runs, after drawing the values of its search; flags override the contents of its file."""
    names = (*SEARCH, "searcher")
    search: dict[str, Any] = dict.fromkeys(names)
    search |= select_settings(contents, names) | select_settings(given, names)
    if search["search"] is not None:
        from interreplay.experiments.tune.hyperparameter_search import repeat_with_values  # imports Ray

        runs = repeat_with_values(runs, search["search"], search["num_samples"] or 10, search["searcher"])
    elif search["searcher"] == TPE:
        raise UsageError(f"--searcher {TPE} needs --search, the settings to be searched")
    elif search["num_samples"] is not None:
        raise UsageError(f"--num_samples {search['num_samples']} needs --search, the settings to be searched")
    execution = Execution(**select_settings(contents, EXECUTION))
    if search["searcher"] == TPE:
        execution = replace(execution, search=dict(search["search"]))
    return Study(runs, execution), StudyFolder.at(given.get("output_dir", str(home)))


def make_run_settings(study: Study, folder: StudyFolder, run: PlannedRun, gpus: float | None = None) -> dict[str, Any]:
    """Return a run's settings as for ``custom_training``, with the threads and the device of the study.

    `gpus` are the GPUs of the run; None for the study's GPUs per trial.
    """
    settings = run.settings
    if gpus is None:
        gpus = study.execution.gpus_per_trial
    device = choose_device(settings.device, gpus)
    how = {"device": device, "threads": study.execution.cpus_per_trial, "output_dir": str(folder.path)}
    if settings.keep_experience == "auto":
        how["keep_experience"] = 0
    return vars(settings) | how


def run_one(study: Study, folder: StudyFolder, number: int) -> int:
    """Execute one run in this process, and write the tables if it is the last one; return the exit code."""
    run = study.runs[number]
    from interreplay.experiments.tune.study_run import run_single

    print(f"run {number} of {len(study.runs)}: {run.name}", flush=True)
    if study.execution.scheduler != "fifo":
        print(f"--scheduler {study.execution.scheduler} has no effect with --run, which trains one run only")
    settings = make_run_settings(study, folder, run, count_gpus())
    code = run_single(folder.trial(run), settings, study.execution, sys.stdout)
    # The tables need the results of all runs, which each task of an array would read again.
    if {*State.OVER, State.FAILED}.issuperset(folder.states(study.runs)):
        results_table.write(folder, study.runs)
    return code


def get_first_step(trial: TrialFolder, settings: Mapping[str, Any]) -> int:
    """Return the env steps of the checkpoint at which a run resumes, or of the one that it forks; 0 for a new run."""
    checkpoints = trial.resumable()
    if not checkpoints and settings["fork_from"]:
        parent = Path(settings["fork_from"])
        checkpoints = find_checkpoints(parent) if parent.is_dir() else [parent]  # it may be on another machine
    return max(0, parse_steps(checkpoints[0])) if checkpoints else 0


def run_all(study: Study, folder: StudyFolder, address: str, again: str = "") -> int:
    """Execute the unfinished runs, then print the table; return the exit code.

    `address` names a Ray cluster, or is ``"local"``. The last line names the command that continues the study:
    `again`, or one with ``--resume`` if it is "".
    """
    todo = [run for run in study.runs if not folder.trial(run).is_over]
    done = len(study.runs) - len(todo)
    states = Counter(folder.states(study.runs))
    counts = f"{states[State.FINISHED]} of them finished"
    if states[State.STOPPED]:
        counts = f"{counts}, {states[State.STOPPED]} stopped early"
    print(f"{len(study.runs)} runs, {counts}; results in {folder.path}", flush=True)
    if not todo:
        return summary(study, folder, 0, again)
    jobs = []
    totals = {}
    saved = {}
    for run in todo:
        gpus = count_gpus() if study.execution.together else None
        settings = make_run_settings(study, folder, run, gpus)
        jobs.append((folder.path.absolute() / run.name, settings))
        totals[run.name] = settings["total_env_steps"]
        saved[run.name] = get_first_step(folder.trial(run), settings)
    reporter = StudyReporter(totals, saved, done, sys.stdout)
    try:
        if study.execution.together:
            from interreplay.experiments.tune.run_together import run_together

            code = run_together(jobs, study.execution, reporter)
        else:
            code = run_with_tune(study, folder, address, jobs=jobs, reporter=reporter)
    finally:
        reporter.close()
    for name, reason in reporter.failed.items():
        trial = TrialFolder(folder.path / name)
        with contextlib.suppress(OSError):  # full disk
            if trial.status()["failures"][-1:] == [shorten(reason)]:
                trial.note(state=State.FAILED)
            else:  # the process ended before it could record the failure
                trial.note_failure(reason, State.FAILED)
    return summary(study, folder, code, again)


def run_with_tune(study: Study, folder: StudyFolder, address: str, jobs: list[Any], reporter: StudyReporter) -> int:
    """Execute runs as processes of Ray Tune; return the exit code."""
    from interreplay.experiments.tune import hyperparameter_search, run_study

    searcher = None
    if study.execution.searcher == TPE:
        searcher = hyperparameter_search.sequential(study, folder, functools.partial(make_run_settings, study, folder))
    execution = run_study.start(address, study.execution, jobs, reporter.note)
    return run_study.run_trials(jobs, execution, folder, reporter, searcher=searcher)


def with_draws(study: Study, folder: StudyFolder) -> list[PlannedRun]:
    """Return the runs of a sequential search with the values drawn so far."""
    runs = []
    for run in study.runs:
        values = folder.trial(run).drawn()
        if values is None:
            runs.append(replace(run, sampled={}))  # its values are drawn when it starts
        else:
            runs.append(grid.with_values(run, values))
    return runs


def summary(study: Study, folder: StudyFolder, code: int, again: str = "") -> int:
    """Write and print the tables; return the exit code."""
    runs = study.runs
    if study.execution.searcher == TPE:
        runs = with_draws(study, folder)
    rows, table = results_table.write(folder, runs)
    where = f"{folder.path}/{results_table.TABLE}"
    print(f"\n{results_table.as_text(table)}\nin brackets: 95 % bootstrap interval over seeds; also in {where}")
    if ranked := results_table.ranking(rows, runs):
        head = ("environment", "trainer", "draw", "values", "seeds", "final return", "steps")
        print(f"\n{results_table.align([head, *ranked], right={4, 5, 6}, width=WIDTH)}")
        for best in results_table.best_draws(rows, runs):
            print(f"command of the best in {best.env}: {results_table.as_command(best)}")
    states = Counter(rows["state"])
    failed = states[State.FAILED]
    left = len(rows) - failed - int(rows["state"].isin(list(State.OVER)).sum())
    if failed:
        reasons = rows.loc[rows["state"] == State.FAILED, ["name", "starts", "last_failure"]].astype(str).to_numpy()
        print(f"\n{results_table.align([('failed', 'tries', 'reason'), *reasons], width=WIDTH)}")
    again = again or f"{program()} --resume {shlex.quote(str(folder.path))}"
    if left:
        print(f"{left} of {len(rows)} runs are left; continue with: {again}", flush=True)
    elif failed:
        print(f"{failed} of {len(rows)} runs failed; retry them with: {again}", flush=True)
    if left and (code or (states[State.INTERRUPTED] and not failed)):
        return code or RESUMABLE  # --max_time ends runs without a signal
    return int(bool(failed or left))
