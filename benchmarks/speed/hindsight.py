"""HER compared with Stable-Baselines3: time to draw a batch of relabeled transitions.

    python -m benchmarks.speed.hindsight [--rows 1000000] [--batch 256] [--repeats 2000]

Both buffers contain the same number of random rows of FetchReach-v4's shape in episodes of 50, relabel four of five
rows by the strategy "future", and call the environment's ``compute_reward`` for the new goals. Only ours also calls its
``compute_terminated``. All contenders run in this process on one thread, in turn, one call each.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.measure import installed, interleaved, medians_table, single_thread
from interreplay.environments import registration

ENV = "FetchReach-v4"
EPISODE = 50


def episodes(rows: int, env: Any) -> Iterator[dict[str, Any]]:
    """Yield random episodes as columns; observations have one more row, the final one."""
    rng = np.random.default_rng(0)
    for number in range(rows // EPISODE):
        goal = rng.normal(0, 0.1, 3)
        obs = {
            "observation": rng.normal(size=(EPISODE + 1, 10)).astype(np.float32),
            "achieved_goal": np.cumsum(rng.normal(0, 0.02, (EPISODE + 1, 3)), axis=0).astype(np.float32),
            "desired_goal": np.tile(goal, (EPISODE + 1, 1)).astype(np.float32),
        }
        yield {
            "number": number,
            "obs": obs,
            "actions": rng.uniform(-1, 1, (EPISODE, 4)).astype(np.float32),
            "rewards": env.compute_reward(obs["achieved_goal"][1:], obs["desired_goal"][1:], {}),
        }


def ours(name: str, rows: int, env: Any) -> Any:
    """Return a full buffer of the catalog."""
    import replay_buffers
    from interreplay import Transitions

    functions = {"compute_reward": env.compute_reward, "compute_terminated": env.compute_terminated}
    buffer = getattr(replay_buffers, name)(capacity=rows, seed=0, **functions if name == "HER" else {})
    for episode in episodes(rows, env):
        buffer.add(
            Transitions(
                obs={key: part[:-1] for key, part in episode["obs"].items()},
                actions=episode["actions"],
                rewards=episode["rewards"],
                next_obs={key: part[1:] for key, part in episode["obs"].items()},
                terminated=np.zeros(EPISODE, bool),
                truncated=np.arange(EPISODE) == EPISODE - 1,
                episode=np.full(EPISODE, episode["number"]),
            )
        )
    return buffer


def stable_baselines(rows: int, env: gym.Env) -> Any:
    """Return a full `HerReplayBuffer` of SB3."""
    from stable_baselines3.common.vec_env import DummyVecEnv
    from stable_baselines3.her import HerReplayBuffer

    vector = DummyVecEnv([lambda: env])
    buffer = HerReplayBuffer(
        rows, env.observation_space, env.action_space, vector, device="cpu", n_sampled_goal=4, copy_info_dict=False
    )
    for episode in episodes(rows, env.unwrapped):
        for step in range(EPISODE):
            before = {key: part[step : step + 1] for key, part in episode["obs"].items()}
            after = {key: part[step + 1 : step + 2] for key, part in episode["obs"].items()}
            done = step == EPISODE - 1
            infos = [{"TimeLimit.truncated": done}]
            actions = episode["actions"][step : step + 1]
            rewards = episode["rewards"][step : step + 1]
            buffer.add(before, after, actions, rewards, np.array([done]), infos)
    return buffer


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in each buffer")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=2_000)
    arguments = parser.parse_args()
    single_thread()
    registration.register(ENV)
    env: Any = gym.make(ENV)
    rows = arguments.rows
    buffers = {f"ours, {name}": ours(name, rows, env.unwrapped) for name in ("Uniform", "HER")}
    if installed("stable_baselines3"):
        buffers["Stable-Baselines3, HER"] = stable_baselines(rows, env)
    contenders: dict[str, Callable[[], Any]] = {
        name: functools.partial(buffer.sample, arguments.batch) for name, buffer in buffers.items()
    }
    goals = np.random.default_rng(0).normal(size=(2, arguments.batch, 3)).astype(np.float32)
    contenders["compute_reward alone"] = functools.partial(env.unwrapped.compute_reward, goals[0], goals[1], {})
    seconds = interleaved(contenders, arguments.repeats, warm_up=20)
    micros = {}
    for name in sorted(seconds, key=lambda name: float(np.median(seconds[name]))):
        micros[name] = seconds[name] * 1e6
    ratios = {name: values / seconds["ours, HER"] for name, values in seconds.items()}
    print(f"{rows} rows, {arguments.repeats} repeats\n")
    head = [f"draw {arguments.batch}", "µs, median", "quartiles", "× ours, HER, median of pairs"]
    print(medians_table(head, micros, ratios, digits=0))


if __name__ == "__main__":
    main()
