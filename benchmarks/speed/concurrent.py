"""Env steps per second of two parallel runs on two CPUs and of a single run; and the start-up time of Ray and Tune.

python -m benchmarks.speed.concurrent --steps 3000 --repeats 3
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
PER_ITERATION = 500


def settings(steps: int) -> str:
    """Return the flags of every run."""
    words = f"--total_env_steps {steps} --steps_per_iteration {PER_ITERATION} --learning_starts {PER_ITERATION}"
    return f"{words} --evaluation_interval 0 --buffer_size 100000 --checkpoint_freq 0"


def study(folder: Path, runs: int, at_once: int, args: argparse.Namespace, steps: int | None = None) -> Path:
    """Execute a study of `runs` runs and return its folder."""
    words = f"--envs {args.env} --seeds {runs} --max_concurrent {at_once}"
    words += f" {settings(steps or args.steps)} --output_dir {folder}"
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    command = [sys.executable, str(ROOT / "cluster_run.py"), *words.split()]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder


def plain(folder: Path, runs: int, args: argparse.Namespace) -> Path:
    """Execute the same runs in parallel processes of custom_training.py, without Tune; return the folder."""
    words = f"--env {args.env} {settings(args.steps)} --quiet --output_dir {folder}"
    command = [sys.executable, str(ROOT / "custom_training.py"), *words.split()]
    processes = [
        subprocess.Popen([*command, "--seed", str(seed)], cwd=ROOT, stdout=subprocess.DEVNULL) for seed in range(runs)
    ]
    if any(process.wait() for process in processes):
        raise SystemExit("custom_training.py failed")
    return folder


def rate(folder: Path) -> float:
    """Return env steps/s, summed over runs, without the first iterations and the last, which a run may make alone."""
    total = 0.0
    for path in folder.glob("*/progress.csv"):
        with path.open(newline="") as file:
            seconds = [float(row["time_this_iter_s"]) for row in csv.DictReader(file)]
        middle = seconds[2 : max(3, len(seconds) * 8 // 10)]
        total += PER_ITERATION * len(middle) / sum(middle)
    return total


def start_seconds(folder: Path, begun: float) -> list[float]:
    """Return seconds until each run was ready to train, from the command's start or the end of the previous run."""
    statuses = [json.loads(path.read_text()) for path in folder.glob("*/status.json")]
    waits = []
    before = begun
    for status in sorted(statuses, key=lambda status: status["ready"]):
        waits.append(status["ready"] - before)
        before = status["ended"]
    return waits


def main() -> None:
    """Measure, and print throughput and startup times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    shares = []
    with tempfile.TemporaryDirectory() as name:
        for repeat in range(args.repeats):
            alone = rate(study(Path(name, f"alone{repeat}"), 1, 1, args))
            pair = rate(study(Path(name, f"pair{repeat}"), 2, 2, args))
            both = rate(plain(Path(name, f"plain{repeat}"), 2, args))
            shares.append(pair / (2 * alone))
            line = f"alone {alone:6.1f} steps/s, two at a time {pair:6.1f} together: {shares[-1]:.2f} of twice one"
            print(f"{line}; two processes without Tune {both:6.1f}: {pair / both:.2f} of that", flush=True)
        begun = time.time()
        found = start_seconds(study(Path(name, "short"), 3, 1, args, steps=PER_ITERATION), begun)
        first = found[0]
        waits = found[1:]
    print(f"median {median(shares):.2f} of twice a lone run; to reach 0.85")
    print(
        f"start of the command until its first run is ready {first:.1f} s; end of a run until the next is ready, ",
        end="",
    )
    print(f"{median(waits):.1f} s")


if __name__ == "__main__":
    main()
