"""Helpers that submit studies to Slurm, wait for them, and read their output."""

from __future__ import annotations

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
from tests.experiments.commands.command_lines import read_csv

HOME = Path(__file__).resolve().parents[2]
OVER = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
RUN = "SAC_slurm_envs-Crawling-v0_Uniform_s0"
STUDY = """
envs: ["slurm_envs:Crawling-v0"]
seeds: {seeds}
max_failures: 3
settings:
  total_env_steps: 300
  steps_per_iteration: 100
  checkpoint_freq: 1
  learning_starts: 100
  evaluation_num_episodes: 1
  hiddens: [32, 32]
  train_batch_size: 32
  buffer_size: 5000
"""


def command(*words: str | Path, seconds: float = 60) -> str:
    """Return the output of a command; fail if the command fails."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def why_not() -> str:
    """Return why Slurm tests cannot run here; empty if they can."""
    if not shutil.which("sbatch"):
        return "no sbatch here; tests/cluster_deployment/throwaway_slurm.sh starts a Slurm"
    try:
        command("sinfo", "-h", seconds=10)
    except (AssertionError, subprocess.TimeoutExpired):
        return "sbatch is here, but no Slurm controller answers"
    return ""


def nodes() -> list[str]:
    """Return the names of the nodes that accept jobs."""
    return sorted(set(command("sinfo", "-h", "-N", "-t", "idle,mix,alloc", "-o", "%N").split()))


SUBMITTED: list[Job] = []


class Job:
    """A study that the launcher submitted to Slurm; its runs crawl after step 220 until `go` is called.

    Args:
        folder: Folder of the study file and the results.
        kind: ``concurrent`` or ``single``.
        options: Options of submit.py.
        seeds: Number of seeds.
        env: Additional variables of the launcher's environment.
    """

    def __init__(self, folder: Path, kind: str, options: str, *, seeds=1, **env: str):
        folder.mkdir(parents=True)
        study, self.results = folder / "study.yaml", folder / "results"
        study.write_text(STUDY.format(seeds=seeds))
        self._go = folder / "go"
        env |= {"GO": str(self._go), "PYTHONPATH": str(Path(__file__).parent)}
        words = [sys.executable, HOME / "cluster_deployment/submit.py", kind, study, "--results_dir", self.results]
        words += ["--venv", Path(sys.prefix), "--time", "20", "--cpus", "1", "--mem", "2500M", "--no-check"]
        words += options.split()
        own = {**os.environ, **env}
        done = subprocess.run([*map(str, words)], env=own, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        self.id = re.search(r"submitted job (\d+)", done.stdout)[1]
        SUBMITTED.append(self)

    def go(self, task: str = "_") -> None:
        """Let the job, or the task with the suffix, such as ``_0``, run at full speed."""
        Path(f"{self._go}{task}").touch()

    def states(self, task: str = "") -> set[str]:
        """Return the states of the job and of all its tasks, or of the task with the suffix, such as ``_0``."""
        return set(command("squeue", "-h", "-r", "-t", "all", "-j", self.id + task, "-o", "%T").split())

    def log(self) -> str:
        """Return the output of the job or of all its tasks."""
        return "\n".join(path.read_text() for path in sorted((self.results / "slurm").glob("*.out")))

    def until(self, happened, what: str, seconds: float = 240) -> None:
        """Wait until `happened` returns true; fail if the job ends before."""
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end and not self.states() <= OVER, f"{what} did not happen:\n{self.log()}"
            time.sleep(0.3)

    def finish(self, task: str = "", seconds: float = 400, expected: str = "COMPLETED") -> None:
        """Wait for the end of the job or of a task, and check its state."""
        end = time.monotonic() + seconds
        while not (states := self.states(task)) <= OVER:
            assert time.monotonic() < end, f"{states} after {seconds} s:\n{self.log()}"
            time.sleep(0.5)
        assert states == {expected}, self.log()

    def scheduler_state(self, task: str = "") -> dict[str, str]:
        """Return the scheduler's description of the job."""
        shown = command("scontrol", "show", "job", self.id + task)
        return dict(re.findall(r"(\w+)=(\S+)", shown))

    def run(self, name: str = RUN) -> Path:
        """Return the folder of a run."""
        return self.results / name

    def status(self, name: str = RUN) -> dict[str, Any]:
        """Return the recorded status of a run; empty before its start."""
        path = self.run(name) / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def saved_steps(self, name: str = RUN) -> int:
        """Return the env steps of a run's newest checkpoint, 0 without one."""
        return max((int(path.name.split("_")[1]) for path in self.run(name).glob("checkpoint_????????")), default=0)

    def rows(self) -> list[dict[str, str]]:
        """Return the report's row of every run."""
        return read_csv(self.results / "runs.csv")


def end_all() -> None:
    """Cancel all running jobs and wait until they have ended."""
    left = [job for job in SUBMITTED if not job.states() <= OVER]
    for job in left:
        command("scancel", job.id)
    end = time.monotonic() + 30
    while any(not job.states() <= OVER for job in left) and time.monotonic() < end:
        time.sleep(0.5)


def weights(run: Path, steps: int) -> dict[str, np.ndarray]:
    """Return the networks in a checkpoint of a run."""
    learner = ("algorithm", "learner_group", "learner")
    networks = arrays.load(run / f"checkpoint_{steps:08d}", *learner, "rl_module", "default_policy")
    return {name: np.asarray(values) for name, values in networks.items()}
