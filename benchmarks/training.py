"""Env steps per second: ours with Uniform and NMER compared with Stable-Baselines3 and stock RLlib.

    python -m benchmarks.training [--trainer SAC|TD3] [--updates 20] [--env HalfCheetah-v5] [--repeats 15]

All contenders run in this process on one thread, in turn for about a second each, with batches of 256, two layers of
256 and `--updates` updates per step. Stock RLlib has no TD3 and is left out with several updates per step.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import installed, interleaved, medians_table, quiet_single_thread

SECONDS = 1.2
"""Approximate duration of a timed call."""
RATES = {"ours": 90, "Stable-Baselines3": 75, "stock RLlib": 10}
"""Expected env steps per second with one update per step."""
COLUMNS = ("obs", "actions", "rewards", "next_obs", "terminated", "truncated")
"""Columns of transitions."""


def steps(kind: str, updates: int) -> int:
    """Return env steps per timed call."""
    return max(1, round(SECONDS * RATES[kind] / updates))


def ours(env: str, buffer: str, trainer: str = "SAC", updates: int = 1, prefill: int = 1_000, **settings: Any) -> Any:
    """Return our algorithm with `prefill` rows of random behavior in its buffer."""
    from interreplay import rllib

    config = getattr(rllib, f"{trainer}Config")().environment(env).debugging(seed=0)
    algorithm = (
        config.replay(buffer, capacity=1_000_000)
        .training(
            num_steps_sampled_before_learning_starts=0,
            steps_per_iteration=steps("ours", updates),
            updates_per_step=updates,
            hiddens=(256, 256),
            **settings,
        )
        .build_algo()
    )
    fill(algorithm.replay_buffer, env, prefill)
    return algorithm


def random_columns(env: str, rows: int) -> dict[str, Any]:
    """Return the columns of `rows` transitions of uniformly random actions, which are scaled to ±1."""
    import gymnasium as gym

    world: Any = gym.make(env)
    world.action_space.seed(0)
    obs, _ = world.reset(seed=0)
    low = world.action_space.low
    high = world.action_space.high
    made: list[tuple[Any, ...]] = []
    for _ in range(rows):
        action = world.action_space.sample()
        following, reward, terminated, truncated, _ = world.step(action)
        made.append((obs, (action - low) / (high - low) * 2 - 1, reward, following, terminated, truncated))
        obs = world.reset()[0] if terminated or truncated else following
    columns = {}
    for name, values in zip(COLUMNS, zip(*made, strict=True), strict=True):
        kind = bool if name in ("terminated", "truncated") else np.float32
        columns[name] = np.array(values, kind)
    return columns


def fill(buffer: Any, env: str, rows: int) -> None:
    """Add `rows` transitions of uniformly random actions."""
    from interreplay import Transitions

    columns = random_columns(env, rows)
    for start in range(0, rows, 10_000):
        buffer.add(Transitions(**{name: column[start : start + 10_000] for name, column in columns.items()}))


def stable_baselines(env: str, trainer: str = "SAC", updates: int = 1) -> Callable[[], Any]:
    """Return a function that trains SB3's algorithm with our batch size, networks and update frequency."""
    import stable_baselines3

    model = getattr(stable_baselines3, trainer)(
        "MlpPolicy",
        env,
        learning_starts=0,
        train_freq=1,
        gradient_steps=updates,
        batch_size=256,
        policy_kwargs={"net_arch": [256, 256]},
        seed=0,
        device="cpu",
        buffer_size=1_000_000,
    )
    return lambda: model.learn(steps("Stable-Baselines3", updates), reset_num_timesteps=False)


def stock(env: str) -> Callable[[], Any]:
    """Return the `train` method of RLlib's SAC with its default buffer and networks, one update per env step."""
    from ray.rllib.algorithms.sac import SACConfig

    count = steps("stock RLlib", 1)
    config = (
        SACConfig()
        .environment(env)
        .env_runners(num_env_runners=0, rollout_fragment_length=1)
        .training(train_batch_size_per_learner=256, num_steps_sampled_before_learning_starts=256)
        .reporting(min_sample_timesteps_per_iteration=count, min_time_s_per_iteration=0)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(256 // count + 2):
        algorithm.train()
    return algorithm.train


def contenders(arguments: argparse.Namespace) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return the env steps per call and the function to call, by name."""
    env = arguments.env
    trainer = arguments.trainer
    updates = arguments.updates
    mine = steps("ours", updates)
    theirs = steps("Stable-Baselines3", updates)
    found = {
        "ours, Uniform": (mine, ours(env, "Uniform", trainer, updates).train),
        "ours, NMER": (mine, ours(env, "NMER", trainer, updates, arguments.prefill).train),
        "ours, Uniform, bfloat16": (mine, ours(env, "Uniform", trainer, updates, matrix_dtype="bfloat16").train),
        "ours, Uniform, compiled": (mine, ours(env, "Uniform", trainer, updates, torch_compile=True).train),
    }
    if installed("stable_baselines3"):
        found["Stable-Baselines3"] = (theirs, stable_baselines(env, trainer, updates))
    if trainer == "SAC" and updates == 1:
        found["stock RLlib"] = (steps("stock RLlib", 1), stock(env))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default="SAC", choices=["SAC", "TD3"])
    parser.add_argument("--updates", type=int, default=1, help="updates per env step")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--prefill", type=int, default=100_000, help="rows in NMER's buffer before the start")
    arguments = parser.parse_args()
    quiet_single_thread()
    found = contenders(arguments)
    seconds = interleaved({name: run for name, (_, run) in found.items()}, arguments.repeats)
    rates = {name: found[name][0] / values for name, values in seconds.items()}
    ratios = {name: rates["ours, Uniform"] / rate for name, rate in rates.items()}
    title = f"{arguments.trainer}, {arguments.updates} updates per step"
    head = [title, "env steps/s, median", "quartiles", "ours with Uniform is × as fast, median of pairs"]
    print(medians_table(head, rates, ratios))


if __name__ == "__main__":
    main()
