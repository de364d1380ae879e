"""Small synthetic result folders, as training writes them."""

import json
import os
from pathlib import Path
from typing import Any

REPLAY, UPDATES = "replay_buffer/", "learners/default_policy/num_updates_lifetime"
STAMP = 1_767_225_600  # 2026-01-01 00:00 UTC


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split("/")
        part = found
        for key in above:
            part = part.setdefault(key, {})
        part[last] = value
    return found


def row(steps: float, training: float | None, evaluation: float | None = None, **more: Any) -> dict[str, Any]:
    flat: dict[str, Any] = {"num_env_steps_sampled_lifetime": steps, "time_total_s": steps / 100, "done": False}
    flat |= {"timestamp": STAMP + int(steps)}
    if training is not None:
        flat["env_runners/episode_return_mean"] = training
    if evaluation is not None:
        flat["evaluation/env_runners/episode_return_mean"] = evaluation
    return nested(flat | more)


def write(folder: Path, rows: list[dict[str, Any]], params: dict[str, Any] | None = None, error: str = "") -> Path:
    folder.mkdir(parents=True)
    if params is not None:
        (folder / "params.json").write_text(json.dumps(params))
    (folder / "result.json").write_text("".join(json.dumps(line) + "\n" for line in rows))
    if error:
        (folder / "error.txt").write_text(error)
        after = STAMP + 10**6
        os.utime(folder / "error.txt", (after, after))
    return folder


def settings(env: str, buffer: str, seed: int, total: int, **more: Any) -> dict[str, Any]:
    """The part of ``params.json`` of custom_training.py that is read."""
    given = {"trainer": "SAC", "env": env, "buffer": buffer, "buffer_args": {}, "seed": seed, "total_env_steps": total}
    return given | {"learning_starts": 1000, "gamma": 0.99, "local_dir": f"somewhere/{seed}"} | more


def ours(
    top: Path, env: str, buffer: str, seed: int, values: list[float], *, total: int = 0, error: str = "", **more: Any
) -> Path:
    """A run of custom_training.py with an evaluation every 1,000 steps; incomplete if `total` is larger."""
    rows = []
    for i, value in enumerate(values):
        columns = {f"{REPLAY}td_error_mean": 1.0 / (i + 1), UPDATES: 1000.0 * i, "config": {"x": 1}}
        rows.append(row(1000.0 * (i + 1), value - 5, value, **columns))
    params = settings(env, buffer, seed, total or 1000 * len(values)) | more
    name = f"SAC_{env.replace('/', '-')}_{buffer}_s{seed}_20260101-00000{len(list(top.glob('*'))) % 10}"
    return write(top / name, rows, params, error)


def stock(top: Path, env: str, seed: int, values: list[float], done: bool = True) -> Path:
    """A Tune trial of RLlib's SAC with training returns only."""
    rows = [row(1000.0 * (i + 1), value) for i, value in enumerate(values)]
    rows[-1]["done"] = done
    replay = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 1000, "alpha": 0.6}
    params = {"env": env, "seed": seed, "gamma": 0.99, "replay_buffer_config": replay, "env_config": {}}
    params["num_steps_sampled_before_learning_starts"] = 1000
    return write(top / "default" / f"SAC_{env}_a1b2c_0000{seed}_{seed}_seed={seed}_2026-01-01", rows, params)


def study(top: Path) -> Path:
    """Two environments, two methods, three seeds, and one run of every kind that is ignored."""
    for env, high in (("Hopper-v5", 100.0), ("Reacher-v5", -5.0)):
        for seed in range(3):
            ours(top, env, "Uniform", seed, [high - 60, high - 40 + seed, high - 20, high - 10 - seed])
            ours(top, env, "NMER", seed, [high - 60, high - 20 + seed, high - 5, high - seed])
    ours(top, "Hopper-v5", "NMER", 3, [40.0, 60.0], total=4000)
    ours(top, "Hopper-v5", "NMER", 4, [40.0], total=4000, error="Traceback\nValueError: actions are NaN\n")
    write(top / "SAC_Hopper-v5_PER_s0_20260101-000000", [], settings("Hopper-v5", "PER", 0, 4000))
    (top / "SAC_Reacher-v5_PER_s0_20260101-000000").mkdir()
    return top
