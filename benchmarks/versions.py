"""Test the installed versions of Ray, PyTorch, Gymnasium and Python: ``python -m benchmarks.versions``.

It runs the tests of RLlib's interfaces, the tests of buffers and updates, and three short training runs, which are
resumed from a checkpoint. It prints one row of the table in docs/versions.md and exits with 1 if a part fails.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.metadata
import math
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ray", "torch", "gymnasium", "numpy", "mujoco")
TESTS = {
    "host": ["tests/rllib/test_host.py"],
    "core": [
        "tests/test_buffer.py",
        "tests/test_contract.py",
        "tests/selection",
        "tests/neighborhood",
        "tests/learning",
    ],
}
# Flags, env steps before and after the resume, and the evaluation return that shows learning. Random play returns
# about 6 in InvertedPendulum, 22 in CartPole and -0.6 in Catch.
SAC = (
    "--trainer SAC --buffer NMER --env InvertedPendulum-v5 --learning_starts 500 --hiddens 64 64 --train_batch_size 64"
)
RUNS = {
    "SAC with NMER": (SAC, 1_000, 2_500, 40.0),
    "DQN with PER": ("--trainer DQN --buffer PER --env CartPole-v1", 2_000, 4_000, 100.0),
    "IMPALA": ("--trainer IMPALA --env interreplay/Catch-v0", 10_000, 20_000, 0.5),
}


def main() -> int:
    """Run the parts in separate processes, print a row of the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parts = [*TESTS, *RUNS]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, metavar="PART", help=", ".join(parts))
    chosen = parser.parse_args().only
    results = {}
    for part in chosen:
        results[part] = run_tests(TESTS[part]) if part in TESTS else train_and_resume(*RUNS[part])
        print(f"{part}: {results[part]}", file=sys.stderr, flush=True)
    versions = [platform.python_version(), *(find_version(name) for name in PACKAGES)]
    names = ["date", "Python", *PACKAGES, *chosen]
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    print("| " + " | ".join([str(datetime.date.today()), *versions, *results.values()]) + " |")
    return int(any(result.startswith("failed") for result in results.values()))


def find_version(package: str) -> str:
    """Return the installed version of a package, "none" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def run_tests(paths: list[str]) -> str:
    """Run the fast tests in files or folders and return pytest's last line without the time."""
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not slurm", *paths]
    done = execute(words)
    last = (done.stdout.strip().splitlines() or [""])[-1].partition(" in ")[0]
    if done.returncode == 0:
        return last
    sys.stderr.write(done.stdout[-5_000:] + done.stderr[-5_000:])
    return f"failed: {last}"


def train_and_resume(flags: str, steps: int, all_steps: int, threshold: float) -> str:
    """Train, resume from the checkpoint, and compare the best evaluation return with a threshold.

    Args:
        flags: Flags of ``custom_training.py``.
        steps: Environment steps before the resume.
        all_steps: Environment steps in total.
        threshold: The evaluation return that shows learning.

    Returns:
        The best evaluation return, preceded by "failed" if a command failed or the return is below the threshold.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ["custom_training.py", *flags.split(), "--seed", "0", "--output_dir", folder]
        for total in (steps, all_steps):
            done = execute([*words, "--total_env_steps", str(total)])
            if done.returncode != 0:
                sys.stderr.write(done.stdout[-5_000:] + done.stderr[-5_000:])
                return f"failed: exit code {done.returncode}"
            (run,) = Path(folder).iterdir()
            words = ["custom_training.py", "--resume", str(run)]
        with open(run / "progress.csv", newline="") as rows:
            texts = [row.get("evaluation/env_runners/episode_return_mean") for row in csv.DictReader(rows)]
    best = max((float(text) for text in texts if text), default=math.nan)
    return f"{best:.1f}" if best >= threshold else f"failed: {best:.1f} is below {threshold}"


def execute(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run this Python in the repository's root with one thread and return the finished process."""
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **os.environ}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
