"""Intervals of forks and of independent runs at equal numbers of env steps: ``python -m benchmarks.learning.forks``.

The question is how NMER differs from uniform replay after step 2,000 of Pendulum, measured by the mean of the five
evaluations from step 2,300 to 3,500. The design was fixed before the first run:

- Fork: one parent of 2,000 steps with uniform replay (seed 100), then both methods with seeds 0 to 4 for 1,500 steps:
  17,000 env steps. Interval of the differences paired by seed (Student's t).
- Independent: runs of 3,500 steps from the beginning, five per method (35,000 env steps). The interval of two and of
  three runs per method (14,000 and 21,000 env steps) follows from the pooled standard deviation of all five (t with the
  degrees of freedom of the smaller design), because intervals of two runs vary too much to be compared.
- The fork is narrower if its interval is narrower than that of three runs per method, which cost more.

The methods are compared under different conditions: the arms of the fork start from uniform replay's past. That is
what a fork measures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.measure import table
from benchmarks.studies.differences import independent
from interreplay.experiments.training.start import fork
from interreplay.rllib import SACConfig
from interreplay.rllib.ray_session import prepare_host
from interreplay.runs.results.intervals import compare_seeds
from interreplay.runs.state_files import manifest

PARENT = 2_000
STEPS = 1_500
METHODS: dict[str, dict[str, Any]] = {"Uniform": {}, "NMER": {"k": 10}}
LEVEL = 0.975


def make_algorithm(method: str, seed: int) -> Any:
    """Return a new algorithm with small networks."""
    config = SACConfig().environment("Pendulum-v1").replay(method, capacity=10_000, **METHODS[method])
    config.training(
        actor_lr=1e-3,
        critic_lr=1e-3,
        alpha_lr=1e-3,
        tau=0.02,
        hiddens=(64, 64),
        train_batch_size_per_learner=64,
        num_steps_sampled_before_learning_starts=500,
        steps_per_iteration=100,
    )
    config.evaluation(evaluation_interval=3, evaluation_duration=5)
    return config.debugging(seed=seed, log_level="ERROR").build_algo()


def trained(algorithm: Any, until: int) -> float:
    """Train, and return the mean of the evaluations after the parent's steps."""
    returns = []
    while algorithm.env_steps < until:
        result = algorithm.train()
        if "evaluation" in result and algorithm.env_steps > PARENT:
            returns.append(result["evaluation"]["env_runners"]["episode_return_mean"])
    return float(np.mean(returns)) if returns else float("nan")


def forked(folder: Path, seeds: int) -> dict[str, dict[int, float]]:
    """Return the result of each arm and seed."""
    parent = make_algorithm("Uniform", 100)
    trained(parent, PARENT)
    checkpoint = folder / f"checkpoint_{PARENT:08d}"
    parent.save_to_path(checkpoint)
    parent.stop()
    shared = {"prioritized": None, "credit_both": False, "buffer_size": 10_000, "n_step": 1, "trainer": "SAC"}
    uniform = shared | {"buffer": "Uniform", "buffer_args": {}}
    manifest.add(checkpoint, "settings.json", json.dumps(uniform))
    found: dict[str, dict[int, float]] = {method: {} for method in METHODS}
    for seed in range(seeds):
        for method, arguments in METHODS.items():
            arm = make_algorithm(method, seed)
            settings = uniform | {"buffer": method, "buffer_args": arguments, "seed": seed}
            fork(arm, SimpleNamespace(**settings, fork_from=str(checkpoint)), str)
            found[method][seed] = trained(arm, PARENT + STEPS)
            arm.stop()
    return found


def train_from_beginning(seeds: int) -> dict[str, dict[int, float]]:
    """Return the result of each method and seed."""
    found: dict[str, dict[int, float]] = {method: {} for method in METHODS}
    for seed in range(seeds):
        for method in METHODS:
            run = make_algorithm(method, seed)
            found[method][seed] = trained(run, PARENT + STEPS)
            run.stop()
    return found


def half_width(values: dict[str, dict[int, float]], runs: int) -> float:
    """Return half of the 95 % interval of a difference with `runs` runs per method, from the pooled deviation."""
    variances = [np.var(list(of_method.values()), ddof=1) for of_method in values.values()]
    deviation = float(np.sqrt(np.mean(variances) * 2 / runs))
    return float(stats.t.ppf(LEVEL, 2 * runs - 2)) * deviation


def main() -> None:
    """Run both designs and print their intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of both designs (default: 5)")
    parser.add_argument("--keep", type=Path, help="also write all results to this file")
    given = parser.parse_args()
    prepare_host(1, 0)
    with tempfile.TemporaryDirectory() as folder:
        arms = forked(Path(folder), given.seeds)
    runs = train_from_beginning(given.seeds)
    if given.keep:
        given.keep.write_text(json.dumps({"fork": arms, "independent": runs}, indent=1) + "\n")
    difference = compare_seeds(arms["NMER"], arms["Uniform"])
    whole = independent(list(runs["NMER"].values()), list(runs["Uniform"].values()))
    steps = PARENT + 2 * given.seeds * STEPS
    half = f"{(difference.high - difference.low) / 2:,.1f}"
    rows = [[f"fork, {given.seeds} seeds", f"{steps:,}", str(difference), half]]
    for count in (2, 3):
        width = half_width(runs, count)
        rows.append([f"independent, {count} per method", f"{2 * count * (PARENT + STEPS):,}", "", f"{width:,.1f}"])
    every = 2 * given.seeds * (PARENT + STEPS)
    half = f"{(whole.high - whole.low) / 2:,.1f}"
    rows.append([f"independent, {given.seeds} per method", f"{every:,}", str(whole), half])
    print(table(["design", "env steps", "NMER - Uniform", "half of the 95 % interval"], rows))


if __name__ == "__main__":
    main()
