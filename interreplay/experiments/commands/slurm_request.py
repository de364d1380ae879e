"""The check of `cluster_deployment/submit.py` before it submits: how many runs a study has, and whether they fit.

``python -m interreplay.experiments.commands.slurm_request JOB STUDY.yaml [flags of cluster_run]`` prints the number of
runs, and on standard error the requests that do not fit them. JOB holds the requests to Slurm, as a JSON mapping.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from interreplay.errors import InterreplayError
from interreplay.experiments.commands.preparation import replay_bytes
from interreplay.experiments.commands.study import make_parser, read_new
from interreplay.experiments.commands.study_checks import check, found, online_source
from interreplay.experiments.flags.study_flags import EXECUTION
from interreplay.experiments.flags.training_flags import RunSettings, settings_for
from interreplay.experiments.studies.study import Execution, Study
from interreplay.learning.algorithms_table import ALGORITHMS

PROCESS_BYTES = 0.7e9
"""Memory of a run without its replay buffer, measured with SAC on HalfCheetah-v5; each env runner takes as much."""
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Job:
    """The request to Slurm for a node of a concurrent job or a task of an array.

    Attributes:
        array: Whether it is a task of an array, which executes one run.
        cpus: CPUs.
        gpus: Value of ``--gpus``, or "".
        mem: Value of ``--mem``, "" for the site's default.
        nodes: Nodes of a concurrent job.
        runs: Runs of an array, the value of ``--runs``; "" for all.
    """

    array: bool
    cpus: int
    gpus: str = ""
    mem: str = ""
    nodes: int = 1
    runs: str = ""

    def bytes(self) -> float:
        """Return the requested memory, infinite if there is no limit."""
        match = re.fullmatch(r"(\d+)([KMGT]?)", self.mem)
        return int(match[1]) * UNITS[match[2] or "M"] if match and int(match[1]) else float("inf")

    def numbers(self, count: int) -> list[int]:
        """Return the numbers of the runs to execute in a study of `count` runs."""
        if not self.runs:
            return list(range(count))
        chosen: set[int] = set()
        for part in self.runs.split(","):
            first, _, last = part.partition("-")
            chosen.update(range(int(first), int(last or first) + 1))
        return sorted(chosen & set(range(count))) or list(range(count))  # the launcher rejects numbers beyond the last


def main(argv: Sequence[str] | None = None) -> int:
    """Print the number of runs; return 0, or 2 after a line about why the study cannot run."""
    job, *words = sys.argv[1:] if argv is None else argv
    try:
        given = make_parser().given(words)
        study = read_new(given)[0]
        chosen = {name: given[name] for name in EXECUTION if name in given}
        study = replace(study, execution=Execution(**asdict(study.execution) | chosen))
        request = Job(**json.loads(job))
        chosen_runs = request.numbers(len(study.runs))
        check(study, chosen_runs, here=False, memory=False)
        notes = list(mentions(replace(study, runs=[study.runs[number] for number in chosen_runs]), request))
    except InterreplayError as error:
        sys.stderr.writelines(f"cluster_run.py: error: {line}\n" for line in error.lines())
        return 2
    sys.stderr.writelines(f"note: {note}\n" for note in notes)
    print(len(study.runs))
    return 0


def mentions(study: Study, job: Job) -> Iterator[str]:
    """Yield lines about requests of a job that do not fit the runs of a study."""
    settings = [settings_for(run.given()) for run in study.runs]
    yield from _about_gpus(study.execution, job, {each.device for each in settings} - {"cpu"})
    cpus = study.execution.cpus_per_trial + max(each.num_workers for each in settings)
    yield from _about_cpus(study.execution, job, cpus)
    yield from _about_memory(study, job, settings, cpus)


def _about_gpus(execution: Execution, job: Job, devices: set[str]) -> Iterator[str]:
    if job.gpus and not devices:
        yield f"--gpus {job.gpus} would be idle: every run computes on the CPU; add -- --device cuda, or leave it out"
    sure = devices - {"auto"}
    if sure and not job.gpus:
        yield f"runs compute on {', '.join(sorted(sure))}, but the job has no GPU; add --gpus 1, or use device cpu"
    if devices and job.gpus and not job.array and not execution.gpus_per_trial:
        yield f"--gpus {job.gpus}: a concurrent job's runs see GPUs by gpus_per_trial only; add -- --gpus_per_trial 1"


def _about_cpus(execution: Execution, job: Job, cpus: int) -> Iterator[str]:
    workers = cpus - execution.cpus_per_trial
    needs = f"a run takes {cpus}, cpus_per_trial {execution.cpus_per_trial} and one for each of {workers} workers"
    if job.cpus < execution.cpus_per_trial or job.cpus * job.nodes < cpus:
        yield f"--cpus {job.cpus} are too few: {needs}; ask for --cpus {cpus}"


def _about_memory(study: Study, job: Job, settings: Sequence[RunSettings], cpus: int) -> Iterator[str]:
    kinds = {}
    for each in settings:
        method = (each.buffer_args, each.prioritized, each.credit_both)
        kinds[each.env, each.buffer, each.buffer_size, repr(method)] = each
    largest = max(map(buffer_bytes, kinds.values()))
    most = study.execution.max_concurrent or len(study.runs)
    runs = 1 if job.array else max(1, min(most, len(study.runs), job.nodes * job.cpus // cpus) // job.nodes)
    processes = 1 + max(each.num_workers for each in settings)
    need = runs * (largest + processes * PROCESS_BYTES)
    if need > job.bytes():
        at_once = f", {runs} runs at a time on a node" if runs > 1 else ""
        sizes = f"{largest / 1e9:.2g} GB when full and a process about {PROCESS_BYTES / 1e9:.1f} GB{at_once}"
        fix = f"ask for --mem {math.ceil(need / 2**30)}G, or use a smaller --buffer_size"
        yield f"--mem {job.mem} is too little: the largest replay buffer takes {sizes}; {fix}"


def buffer_bytes(settings: RunSettings) -> int:
    """Return bytes of memory of a run's full replay buffer, 0 if it is stored on a GPU.

    Raises:
        UsageError: The buffer or the environment cannot be made.
    """
    if settings.device == "cuda" and not ALGORITHMS[settings.trainer].unrolls:
        return 0
    environment = found(settings)
    return replay_bytes(settings, environment, online_source(settings, environment))


if __name__ == "__main__":
    sys.exit(main())
