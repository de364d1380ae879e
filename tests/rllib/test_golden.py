"""The same seeds give the same results as at commit d2c55bd, before modules moved.

The results of NMER and BIER are from decision 15: their neighbors are as exact as before, but not always the same.
``td_error_std`` divides by the number of rows, so that it is finite for a single row.

``tests/data/golden.json`` contains the results of 300 steps on Pendulum-v1: losses and the replay buffer's metrics of
every iteration, sums over each parameter and each column of the stored rows. ``python -m tests.rllib.test_golden``
prints the current results, for decisions that change them on purpose.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.rllib import small_runs

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden.json"
RUNS = {
    "SAC+NMER": ("SAC", "NMER", {"k": 5}),
    "TD3+PER": ("TD3", "PER", {}),
    "SAC+BIER": ("SAC", "BIER", {"k": 5, "retrain_interval": 50}),
}
STEPS, EACH = 300, 100
COLUMNS = ("obs", "actions", "rewards", "next_obs")


def config(name: str, seed: int = 0) -> Any:
    trainer, buffer, arguments = RUNS[name]
    made = small_runs.config(seed=seed, trainer=trainer).replay(buffer, capacity=1_000, **arguments)
    return made.training(num_steps_sampled_before_learning_starts=100, steps_per_iteration=EACH)


def numbers(results: dict[str, Any]) -> dict[str, float]:
    """Return the numbers that are not times."""
    plain = {name: value for name, value in results.items() if np.isscalar(value) and not isinstance(value, str | bool)}
    times = ("time", "seconds", "throughput")
    return {
        name: float(value)
        for name, value in sorted(plain.items())
        if not any(part in name.removesuffix("_lifetime") for part in times)
    }


def sums(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return the sums in float64 of each tensor, and the sums of their absolute values."""
    arrays = {name: tensor.detach().cpu().numpy().astype(np.float64) for name, tensor in sorted(tensors.items())}
    return {
        "sums": {name: math.fsum(array.ravel()) for name, array in arrays.items()},
        "sums_of_sizes": {name: math.fsum(np.abs(array).ravel()) for name, array in arrays.items()},
    }


def run(name: str, seed: int = 0) -> dict[str, Any]:
    """Return the results of one run."""
    algo = config(name, seed).build_algo()
    iterations = []
    for _ in range(STEPS // EACH):
        result = algo.train()
        reached = float(result["env_runners"].get("episode_return_mean", math.nan))
        iterations.append({"env_steps": int(algo.env_steps), "learner": numbers(result["learners"]["default_policy"])})
        iterations[-1]["replay_buffer"] = numbers(result["replay_buffer"])
        iterations[-1]["episode_return_mean"] = None if math.isnan(reached) else reached
    rows = algo.replay_buffer.storage[torch.arange(len(algo.replay_buffer))].columns()
    return {
        "iterations": iterations,
        "parameters": sums(algo.learner.single_module.state_dict()),
        "stored": sums({column: rows[column] for column in COLUMNS}),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_the_same_seed_gives_the_same_results(name):
    expected, found = json.loads(GOLDEN.read_text())["runs"][name], run(name)
    for mine, before in zip(found["iterations"], expected["iterations"], strict=True):
        assert mine["env_steps"] == before["env_steps"]
        # None before the first episode ends; no return of Pendulum is 0.
        assert (mine["episode_return_mean"] or 0.0) == pytest.approx(before["episode_return_mean"] or 0.0, rel=1e-6)
        for part in ("learner", "replay_buffer"):
            assert {key: mine[part][key] for key in before[part]} == pytest.approx(before[part], rel=1e-5)
    for part in ("parameters", "stored"):
        mine, before = found[part], expected[part]
        assert mine["sums_of_sizes"] == pytest.approx(before["sums_of_sizes"], rel=1e-6)
        for tensor, size in before["sums_of_sizes"].items():
            assert abs(mine["sums"][tensor] - before["sums"][tensor]) <= 1e-6 * size, tensor


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps({"runs": {name: run(name) for name in RUNS}}, indent=1) + "\n")
