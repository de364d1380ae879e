"""Env steps per second of SAC: ours with Uniform and NMER, Stable-Baselines3's, stock RLlib's, side by side.

    python -m benchmarks.training [--env HalfCheetah-v5] [--repeats 15]

All run in this process on one thread with batch 256, two layers of 256 and one update per step,
in turn for a second or so each.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.measure import interleaved, single_thread, table

STEPS = {"ours, Uniform": 100, "ours, NMER": 100, "Stable-Baselines3": 100, "stock RLlib": 12}
"""Env steps per timed call."""


def ours(env: str, buffer: str, prefill: int) -> Any:
    """Our SAC, its buffer holding `prefill` rows of random behaviour."""
    from interreplay.rllib import SACConfig

    config = SACConfig().environment(env).replay(buffer, capacity=1_000_000).debugging(seed=0)
    algorithm = config.training(
        num_steps_sampled_before_learning_starts=0, steps_per_iteration=STEPS[f"ours, {buffer}"]
    ).build_algo()
    if prefill:
        fill(algorithm.replay_buffer, env, prefill)
    return algorithm


def fill(buffer: Any, env: str, rows: int) -> None:
    """Add `rows` transitions of uniformly random actions."""
    import gymnasium as gym
    import numpy as np

    from interreplay import Transitions

    world = gym.make(env)
    world.action_space.seed(0)
    obs, _ = world.reset(seed=0)
    low, high = world.action_space.low, world.action_space.high
    columns: list[tuple[Any, ...]] = []
    for episode_step in range(rows):
        action = world.action_space.sample()
        following, reward, terminated, truncated, _ = world.step(action)
        columns.append((obs, (action - low) / (high - low) * 2 - 1, reward, following, terminated, truncated))
        obs = world.reset()[0] if terminated or truncated else following
        if len(columns) == 10_000 or episode_step == rows - 1:
            obs_, actions, rewards, next_obs, over, cut = (np.array(c) for c in zip(*columns, strict=True))
            floats = (c.astype(np.float32) for c in (obs_, actions, rewards, next_obs))
            o, a, r, n = floats
            buffer.add(Transitions(o, a, r, n, over, cut))
            columns = []


def stable_baselines(env: str) -> Callable[[], Any]:
    """SB3's SAC with its defaults, which are ours."""
    from stable_baselines3 import SAC

    model = SAC("MlpPolicy", env, learning_starts=0, seed=0, device="cpu", buffer_size=1_000_000)
    return lambda: model.learn(STEPS["Stable-Baselines3"], reset_num_timesteps=False)


def stock(env: str) -> Callable[[], Any]:
    """RLlib's SAC with its default buffer and networks, one update per env step."""
    from ray.rllib.algorithms.sac import SACConfig

    config = (
        SACConfig()
        .environment(env)
        .env_runners(num_env_runners=0, rollout_fragment_length=1)
        .training(train_batch_size_per_learner=256, num_steps_sampled_before_learning_starts=256)
        .reporting(min_sample_timesteps_per_iteration=STEPS["stock RLlib"], min_time_s_per_iteration=0)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(256 // STEPS["stock RLlib"] + 2):
        algorithm.train()
    return algorithm.train


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--prefill", type=int, default=100_000, help="rows in NMER's buffer before the start")
    arguments = parser.parse_args()
    single_thread()
    warnings.simplefilter("ignore")
    logging.getLogger("ray").setLevel(logging.ERROR)
    contenders = {
        "ours, Uniform": ours(arguments.env, "Uniform", 1_000).train,
        "ours, NMER": ours(arguments.env, "NMER", arguments.prefill).train,
        "Stable-Baselines3": stable_baselines(arguments.env),
        "stock RLlib": stock(arguments.env),
    }
    seconds = interleaved(contenders, arguments.repeats)
    rates = {name: STEPS[name] / values for name, values in seconds.items()}
    base = rates["ours, Uniform"]
    rows = []
    for name, rate in rates.items():
        low, median, high = (f"{float(q):.1f}" for q in _quantiles(rate))
        rows.append([name, median, f"{low}–{high}", f"{_median(base / rate):.2f}"])
    print(table(["SAC", "env steps/s, median", "quartiles", "ours with Uniform is × as fast, median of pairs"], rows))


def _quantiles(values: Any) -> Any:
    import numpy as np

    return np.quantile(values, [0.25, 0.5, 0.75])


def _median(values: Any) -> float:
    import numpy as np

    return float(np.median(values))


if __name__ == "__main__":
    main()
