"""Submitting studies to a Slurm that answers, waiting for them, and looking at what they left."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from interreplay.runs.state_files import arrays

HOME = Path(__file__).resolve().parents[2]
OVER = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
STUDY = """
buffers: [{buffers}]
seeds: {seeds}
max_failures: 3
settings:
  total_env_steps: {steps}
  steps_per_iteration: 100
  checkpoint_freq: 1
  learning_starts: 100
  evaluation_num_episodes: 1
  hiddens: [32, 32]
  train_batch_size: 32
  buffer_size: 5000
"""


def command(*words: str | Path, seconds: float = 60) -> str:
    """What a command prints; fails where the command does."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def why_not() -> str:
    """Why Slurm tests cannot run here; empty where they can."""
    if not shutil.which("sbatch"):
        return "no sbatch here; tests/cluster_deployment/throwaway_slurm.sh starts a Slurm"
    try:
        command("sinfo", "-h", seconds=10)
    except (AssertionError, subprocess.TimeoutExpired):
        return "sbatch is here, but no Slurm controller answers"
    return ""


def nodes() -> list[str]:
    """The names of the nodes that take jobs."""
    return sorted(set(command("sinfo", "-h", "-N", "-t", "idle,mix,alloc", "-o", "%N").split()))


SUBMITTED: list[Job] = []


class Job:
    """A study handed to Slurm by the launcher.

    Args:
        folder: Where the study file and the results go.
        kind: ``concurrent`` or ``single``.
        options: Of submit.py.
        buffers: The study's.
        seeds: How many.
        steps: Env steps of each run.
        env: What the launcher's environment has more.
    """

    def __init__(self, folder: Path, kind: str, options: str, *, buffers="Uniform", seeds=1, steps=500, **env: str):
        folder.mkdir(parents=True)
        study, self.results = folder / "study.yaml", folder / "results"
        study.write_text(STUDY.format(buffers=buffers, seeds=seeds, steps=steps))
        words = [sys.executable, HOME / "cluster_deployment/submit.py", kind, study, "--results_dir", self.results]
        words += ["--venv", Path(sys.prefix), "--time", "10", *options.split()]
        done = subprocess.run(
            [*map(str, words)], env={**os.environ, **env}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.id = re.search(r"submitted job (\d+)", done.stdout)[1]
        SUBMITTED.append(self)

    def states(self) -> set[str]:
        """The states of the job, or of all its tasks."""
        return set(command("squeue", "-h", "-r", "-t", "all", "-j", self.id, "-o", "%T").split())

    def log(self) -> str:
        """Return the output of the job or of all its tasks."""
        return "\n".join(path.read_text() for path in sorted((self.results / "slurm").glob("*.out")))

    def until(self, happened, what: str, seconds: float = 240) -> None:
        """Waits for something to happen while the job is not over."""
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end and not self.states() <= OVER, f"{what} did not happen:\n{self.log()}"
            time.sleep(0.3)

    def finish(self, seconds: float = 400, expected: str = "COMPLETED") -> None:
        """Waits for the job's end, which has to be as expected."""
        end = time.monotonic() + seconds
        while not (states := self.states()) <= OVER:
            assert time.monotonic() < end, f"{states} after {seconds} s:\n{self.log()}"
            time.sleep(0.5)
        assert states == {expected}, self.log()

    def scheduler_state(self, task: str = "") -> dict[str, str]:
        """Return the scheduler's description of the job."""
        shown = command("scontrol", "show", "job", self.id + task)
        return dict(re.findall(r"(\w+)=(\S+)", shown))

    def run(self, name: str = "SAC_InvertedPendulum-v5_Uniform_s0") -> Path:
        """The folder of a run."""
        return self.results / name

    def status(self, name: str = "SAC_InvertedPendulum-v5_Uniform_s0") -> dict[str, Any]:
        """What the study knows of a run; nothing before it has begun."""
        path = self.run(name) / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def saved_steps(self, name: str = "SAC_InvertedPendulum-v5_Uniform_s0") -> int:
        """The env steps of a run's newest checkpoint, 0 without one."""
        return max((int(path.name.split("_")[1]) for path in self.run(name).glob("checkpoint_????????")), default=0)

    def rows(self) -> list[dict[str, str]]:
        """The report's row for every run."""
        with (self.results / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))


def end_all() -> None:
    """Cancels what tests left running, and waits until nothing of it writes any more."""
    left = [job for job in SUBMITTED if not job.states() <= OVER]
    for job in left:
        command("scancel", job.id)
    end = time.monotonic() + 30
    while any(not job.states() <= OVER for job in left) and time.monotonic() < end:
        time.sleep(0.5)


def steps_of_curve(run: Path) -> list[int]:
    """The env steps of each row of a run's results."""
    with (run / "progress.csv").open(newline="") as file:
        return [int(float(row["num_env_steps_sampled_lifetime"])) for row in csv.DictReader(file)]


def weights(run: Path, steps: int) -> dict[str, np.ndarray]:
    """The networks in the last checkpoint of a run."""
    learner = ("algorithm", "learner_group", "learner")
    networks = arrays.load(run / f"checkpoint_{steps:08d}", *learner, "rl_module", "default_policy")
    return {name: np.asarray(values) for name, values in networks.items()}


def assert_equal_weights(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys() and one
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)
