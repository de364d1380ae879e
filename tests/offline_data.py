"""Recorded experience of Pendulum in all supported formats."""

import gymnasium as gym
import numpy as np

from interreplay import Transitions

HIGH = 2.0  # of Pendulum's torque


def episodes(count=4, steps=25, seed=0):
    """Episodes of Pendulum with random torques, in the units of the environment."""
    env, rng = gym.make("Pendulum-v1"), np.random.default_rng(seed)
    found = []
    for number in range(count):
        obs = [env.reset(seed=seed + number)[0]]
        actions, rewards = rng.uniform(-HIGH, HIGH, (steps, 1)).astype(np.float32), []
        for action in actions:
            following, reward, *_ = env.step(action)
            obs.append(following)
            rewards.append(float(reward))
        ends = np.arange(1, steps + 1) == steps
        found.append(
            {
                "observations": np.array(obs),
                "actions": actions,
                "rewards": np.array(rewards),
                "terminations": ends & (number % 2 == 1),
                "truncations": ends & (number % 2 == 0),
            }
        )
    return found


def transitions(found):
    """The episodes as rows of a replay buffer, with torques in [-1, 1]."""
    one = [
        {
            "obs": e["observations"][:-1],
            "actions": e["actions"] / HIGH,
            "rewards": e["rewards"].astype(np.float32),
            "next_obs": e["observations"][1:],
            "terminated": e["terminations"],
            "truncated": e["truncations"],
            "episode": np.full(len(e["actions"]), number),
        }
        for number, e in enumerate(found)
    ]
    return Transitions(**{name: np.concatenate([rows[name] for rows in one]) for name in one[0]})


def minari_dataset(found, name="pendulum/random-v0"):
    """Write the episodes as a Minari dataset to the folder MINARI_DATASETS_PATH."""
    import minari
    from minari.data_collector import EpisodeBuffer

    env = gym.make("Pendulum-v1")
    buffers = [EpisodeBuffer(id=i, **{k: list(v) for k, v in episode.items()}) for i, episode in enumerate(found)]
    minari.create_dataset_from_buffers(
        name,
        buffers,
        env=env.spec,
        observation_space=env.observation_space,
        action_space=env.action_space,
        algorithm_name="random",
        requirements=[],
        data_format="arrow",
    )
    return name
