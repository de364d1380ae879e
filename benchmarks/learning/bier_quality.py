"""Prediction error of BIER compared with the linear blend.

    python -m benchmarks.learning.bier_quality --data data/HalfCheetah-v5-random.npz [--env ENV] [--figure FILE]

A buffer is filled with stored transitions (`python -m benchmarks.learning.bier_data` collects some). Two errors are
measured:

* Left-out rows are predicted from the rest of their neighborhood.
* Blended rows are compared with the simulator, which executes each blended action in the blended state. This requires
  an environment whose state can be set from an observation (HalfCheetah, Hopper, Walker2d).

Without `--env`, only the first error is measured. `--buffer-arg kernel=rbf` sets an argument of BIER.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import existing, single_thread, table

BATCHES = 4
ROWS = 256


def load(path: Path, **arguments: Any) -> Any:
    """Return a BIER buffer with the transitions of a file."""
    from interreplay import Transitions
    from replay_buffers import BIER

    columns = np.load(path)
    buffer = BIER(capacity=len(columns["rewards"]), seed=0, **arguments)
    buffer.add(Transitions(**{name: columns[name] for name in columns.files}))
    return buffer


def spread(buffer: Any) -> np.ndarray:
    """Return standard deviations of [r; Δs] over all stored rows ``(T,)``."""
    import torch

    rows = buffer.storage[torch.arange(len(buffer))]
    return np.concatenate([rows.rewards[:, None].numpy(), (rows.next_obs - rows.obs).numpy()], axis=1).std(axis=0)


def left_out(buffer: Any, split: float) -> dict[str, np.ndarray]:
    """Return RMSE and negative log density on rows that are left out, ``(T,)`` each, by score and method."""
    import torch

    from interreplay.synthesis.gaussian_process.holdout import evaluate
    from interreplay.synthesis.gaussian_process.neighborhoods import stack_targets

    maker = buffer.synthesizer
    found = []
    for _ in range(BATCHES):
        slots = torch.from_numpy(buffer.rng.integers(0, len(buffer), ROWS))
        near = buffer.neighborhood.neighbor_slots(buffer.storage, slots, buffer.rng)
        slots = torch.cat([slots[:, None], near], dim=1).view(-1)
        rows = buffer.storage[slots].map(lambda column: column.unflatten(0, (ROWS, -1)))
        actions = rows.actions[0, 0].numel()
        z = buffer.storage.features(slots).unflatten(0, (ROWS, -1))
        y = stack_targets(rows)
        found.append(evaluate(maker.form, maker.schedule, maker.preparation, z, y, actions, split))
    scores = {}
    for name in found[0]:
        values = np.stack([one[name].numpy() for one in found])
        mean = np.sqrt(np.mean(values**2, axis=0)) if name.startswith("rmse") else np.mean(values, axis=0)
        scores[name.replace("_", " ")] = mean
    return scores


def simulated(env: Any, rows: Any) -> np.ndarray:
    """Return [r; s'] ``(n, T)`` of the simulator at the states and actions of `rows`."""
    low = env.action_space.low
    high = env.action_space.high
    nq = env.model.nq
    outcomes = []
    for obs, action in zip(rows.obs.double().numpy(), rows.actions.double().numpy(), strict=True):
        env.set_state(np.concatenate([[0.0], obs[: nq - 1]]), obs[nq - 1 :])
        following, reward, *_ = env.step((low + (action + 1.0) / 2.0 * (high - low)).astype(np.float32))
        outcomes.append(np.concatenate([[reward], following]))
    return np.array(outcomes)


def against_the_simulator(buffer: Any, name: str) -> dict[str, np.ndarray]:
    """Return RMSE ``(T,)`` of blended rows by method, both at the same states and actions."""
    import gymnasium as gym

    from interreplay.synthesis import Mixup

    env = gym.make(name).unwrapped
    env.reset(seed=0)
    errors: dict[str, list[np.ndarray]] = {"rmse gp": [], "rmse blend": []}
    maker = buffer.synthesizer
    for _ in range(BATCHES):
        state = copy.deepcopy(buffer.rng.bit_generator.state)
        drawn = {}
        for method, synthesizer in (("rmse blend", Mixup()), ("rmse gp", maker)):
            buffer.rng.bit_generator.state = copy.deepcopy(state)
            buffer.synthesizer = synthesizer
            drawn[method] = buffer.sample(ROWS)
        blended = (drawn["rmse blend"].mix < 1).numpy()
        truth = simulated(env, drawn["rmse blend"].transitions)
        for method, sample in drawn.items():
            rows = sample.transitions
            outcome = np.concatenate([rows.rewards[:, None].numpy(), rows.next_obs.numpy()], axis=1)
            errors[method].append((outcome - truth)[blended])
    return {method: np.sqrt(np.mean(np.concatenate(e) ** 2, axis=0)) for method, e in errors.items()}


def target_names(count: int) -> list[str]:
    """Return the names of the targets in tables and figures."""
    return ["r", *(f"Δs{i}" for i in range(count - 1))]


def print_table(title: str, scores: dict[str, np.ndarray], scale: np.ndarray) -> None:
    """Print scores per target and their means; RMSE is relative to the target's standard deviation."""
    shown = {}
    for name, values in scores.items():
        shown[name] = values / scale if name.startswith("rmse") else values
    ratios = scores["rmse gp"] / scores["rmse blend"]
    rows = []
    for i, name in enumerate(target_names(len(scale))):
        rows.append([name, *(f"{values[i]:.3f}" for values in shown.values()), f"{ratios[i]:.2f}"])
    mean_ratio = np.exp(np.log(ratios).mean())
    rows.append(["mean", *(f"{values.mean():.3f}" for values in shown.values()), f"{mean_ratio:.2f}"])
    print(f"{title}\n\n{table(['target', *shown, 'rmse gp / blend'], rows)}\n")


def draw(path: Path, panels: dict[str, dict[str, np.ndarray]], title: str) -> None:
    """Draw a bar per target and panel: RMSE of the Gaussian processes relative to the linear blend."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(panels), 1, figsize=(7, 2.4 * len(panels)), squeeze=False, sharex=True)
    for axis, (name, scores) in zip(axes[:, 0], panels.items(), strict=True):
        ratio = scores["rmse gp"] / scores["rmse blend"]
        axis.bar(range(len(ratio)), ratio, color=["#2a6f97" if r <= 1 else "#c44536" for r in ratio])
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_xticks(range(len(ratio)), target_names(len(ratio)), fontsize=7)
        axis.set_ylabel("RMSE, GP / blend", fontsize=8)
        axis.set_title(f"{title}: {name}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=existing, required=True)
    parser.add_argument("--env")
    parser.add_argument("--split", type=float, default=0.2)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--buffer-arg", action="append", default=[], help="argument of BIER such as kernel=rbf")
    arguments = parser.parse_args()
    single_thread()
    from interreplay.experiments.flags.values import assignment

    buffer = load(arguments.data, **dict(assignment(text) for text in arguments.buffer_arg))
    buffer.sample(ROWS)  # triggers the first fit
    scale = spread(buffer)
    panels = {}
    panels["rows left out"] = left_out(buffer, arguments.split)
    if arguments.env:
        panels["blended rows in the simulator"] = against_the_simulator(buffer, arguments.env)
    for name, scores in panels.items():
        print_table(f"{arguments.data.stem}, {name}", scores, scale)
    if arguments.figure:
        draw(arguments.figure, panels, arguments.data.stem)


if __name__ == "__main__":
    main()
