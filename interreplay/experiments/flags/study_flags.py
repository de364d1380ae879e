"""The flags of ``cluster_run`` itself; it also accepts those of ``custom_training``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import search, split
from interreplay.learning.setting_fields import Boolean, Number, OneOf, WholeNumber

STUDY_GROUPS: dict[str, tuple[Flag, ...]] = {
    "runs; also keys of a study file": (
        Flag("buffers", split, None, "replay methods, such as Uniform,NMER{k: 10}", many=True),
        Flag("envs", split, None, "environments", many=True),
        Flag("trainers", split, None, "algorithms (default: SAC)", many=True),
        Flag("seeds", split, None, "number of seeds, such as 5, or a list, such as 0,3 or [5] (default: 1)", many=True),
        Flag(
            "inputs",
            Path,
            None,
            "inputs file of the original work: flags in the first line, then one line per run",
            aliases=("input_path",),
        ),
    ),
    "execution; also keys of a study file": (
        Flag(
            "cpus_per_trial", WholeNumber(1), 1, "CPUs and threads of a run; each of its --num_workers takes one more"
        ),
        Flag("gpus_per_trial", Number(0), 0.0, "GPUs of a run; may be a fraction"),
        Flag("max_concurrent", WholeNumber(1), None, "parallel runs (default: as many as the CPUs allow)"),
        Flag("max_failures", WholeNumber(0), 2, "maximum number of retries of a failed run from its checkpoint"),
        Flag(
            "hang_timeout",
            Number(0, open_low=True),
            900.0,
            "seconds without an env step, an update or a checkpoint after which a run fails, at least 900 before the "
            "first one",
        ),
        Flag(
            "together",
            WholeNumber(0),
            0,
            "number of processes that train all runs at once and perform equal updates as one; 0: one process per run",
        ),
    ),
    "search; also keys of a study file": (
        Flag(
            "search",
            search,
            None,
            "settings to draw from Tune's distributions, such as k=randint(3,30),alpha=uniform(.2,2)",
            many=True,
        ),
        Flag("num_samples", WholeNumber(1), 10, "draws for each algorithm and replay method with a searched setting"),
        Flag(
            "searcher",
            OneOf("random", "tpe"),
            "random",
            "random draws all values before the first run; tpe draws the values of each run when it starts, based on "
            "previous results (Optuna's, extra search)",
        ),
        Flag(
            "scheduler",
            OneOf("fifo", "asha", "median"),
            "fifo",
            "asha and median stop runs with low returns early (schedulers of Ray Tune), fifo stops none",
        ),
    ),
    "folder, cluster and selected runs": (
        Flag(
            "output_dir",
            str,
            None,
            "the study's folder, which all nodes share (default: results/<the study file's name>)",
            aliases=("results_dir", "local_dir"),
        ),
        Flag("resume", str, None, "continue the study in this folder; needs no other flag"),
        Flag(
            "address",
            str,
            None,
            "address of a Ray cluster, auto for a running one, local for a new one (default: RAY_ADDRESS, or local)",
        ),
        Flag("list_buffers", Boolean(), False, "print the replay methods, one line each, and exit"),
        Flag("list_presets", Boolean(), False, "print the presets, one line each, and exit"),
        Flag("dry_run", Boolean(), False, "print the runs, and exit"),
        Flag("count", Boolean(), False, "print the number of runs, and exit"),
        Flag("job_cpus", WholeNumber(1), None, "with --count: check that the runs fit a job with this number of CPUs"),
        Flag("job_gpus", WholeNumber(0), None, "with --count: check that the runs fit a job with this number of GPUs"),
        Flag("run", WholeNumber(0), None, "execute only the run with this number, in this process, without a cluster"),
    ),
}
EXECUTION = (*(flag.name for flag in STUDY_GROUPS["execution; also keys of a study file"]), "scheduler", "searcher")
SEARCH = ("search", "num_samples")
FILE_KEYS = {flag.name: flag for flag in chain(*STUDY_GROUPS.values()) if flag.name in (*EXECUTION, "num_samples")}
GRID = ("buffers", "envs", "trainers", "seeds")
