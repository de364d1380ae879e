# %% [markdown]
# # Learn from recorded data
#
# *Question: how do I use transitions that were recorded before, and how much do they help?*
#
# The task is Pendulum: swing up a pole and keep it upright.
# A simple controller with a noisy motor has recorded 5,000 transitions.
# It swings the pole up, but holds it badly.
# This page uses the recording in two ways:
# **alone**, without any new environment step, and **in a mix** with new steps.

# %%
import logging
import os
import tempfile
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREEN, GREY, ORANGE, show

from interreplay import Mix, Transitions
from interreplay.rllib import SACConfig, TD3Config
from interreplay.runs import state_files
from replay_buffers import Uniform

warnings.filterwarnings("ignore")
logging.getLogger("ray").setLevel(logging.ERROR)
torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
os.environ["INTERREPLAY_CACHE"] = str(folder / "cache")

# %% [markdown]
# ## Record
#
# The controller adds energy while the pole hangs and balances it near the top.
# Half of its torque is noise.


# %%
def controller(obs, rng):
    """Return a torque in [−2, 2] for the observation [cos, sin, angular velocity]."""
    cos, sin, velocity = obs
    energy = velocity**2 / 6 + 5 * cos
    balance = -10 * sin - 2 * velocity
    swing = 2 * np.sign(velocity) * np.sign(5 - energy)
    torque = balance if cos > 0.9 else swing
    return np.clip([torque + 2 * rng.normal()], -2, 2).astype(np.float32)


def record(episodes, seed=0):
    """Return the transitions of the controller, with actions scaled to [−1, 1], and the returns of the episodes."""
    environment = gym.make("Pendulum-v1")
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("obs", "actions", "rewards", "next_obs", "terminated", "truncated", "episode")}
    returns = []
    for number in range(episodes):
        obs, _ = environment.reset(seed=seed + number)
        returns.append(0.0)
        truncated = False
        while not truncated:
            action = controller(obs, rng)
            next_obs, reward, terminated, truncated, _ = environment.step(action)
            row = (obs, action / 2, np.float32(reward), next_obs, terminated, truncated, number)
            for column, value in zip(rows.values(), row, strict=True):
                column.append(value)
            returns[-1] += float(reward)
            obs = next_obs
    return Transitions(**{name: np.array(column) for name, column in rows.items()}), returns


recorded, recorded_returns = record(episodes=25)
print(recorded)

# %% [markdown]
# A replay buffer that holds the transitions is saved to a folder, which can then be used as data.
# Other accepted formats are Minari datasets, Parquet episodes of RLlib, runs and checkpoints.

# %%
buffer = Uniform(capacity=len(recorded))
buffer.add(recorded)
data = folder / "recording"
state_files.save(data, buffer.state_dict())
print(f"{len(recorded):,} transitions; returns of the episodes: mean {np.mean(recorded_returns):.0f}")

# %% [markdown]
# ## Learn from the recording alone
#
# With `collect=False`, no environment step is taken, and updates are counted instead.
# An ordinary algorithm would overestimate actions that were never recorded.
# TD3+BC avoids this: its policy also imitates the recorded actions (`bc_alpha`).
# The environment is only used for evaluation.

# %%
COMMON = {
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "tau": 0.02,
    "hiddens": (64, 64),
    "train_batch_size_per_learner": 64,
    "steps_per_iteration": 250,
}


def learning_curve(config, until):
    """Return the steps and evaluation returns of one training run."""
    algorithm = config.evaluation(evaluation_interval=1, evaluation_duration=5).debugging(seed=0).build_algo()
    steps, returns = [], []
    while algorithm.env_steps < until:
        result = algorithm.train()
        steps.append(algorithm.env_steps)
        returns.append(result["evaluation"]["env_runners"]["episode_return_mean"])
    algorithm.stop()
    return steps, returns


alone = (
    TD3Config()
    .environment("Pendulum-v1")
    .replay("Offline", data=str(data), method="NMER", arguments={"k": 10})
    .training(collect=False, bc_alpha=2.5, normalize_observations=True, **COMMON)
)
curves = {"recording alone": learning_curve(alone, until=2_500)}

# %% [markdown]
# ## Mix recorded and new transitions
#
# A `Mix` draws a share of each batch from each source. Here half of each batch is recorded.
# The other run is identical but has no recording.

# %%
online = SACConfig().environment("Pendulum-v1").replay("NMER", capacity=10_000, k=10)
mix = Mix({"online": "NMER", "offline": {"type": "Offline", "data": str(data), "method": "NMER"}})
mixed = SACConfig().environment("Pendulum-v1").replay(mix, capacity=10_000)
for name, config in (("new steps only", online), ("recording and new steps", mixed)):
    config.training(alpha_lr=3e-3, num_steps_sampled_before_learning_starts=200, **COMMON)
    curves[name] = learning_curve(config, until=1_500)

# %%
figure, panel = plt.subplots(figsize=(7.5, 4))
colors = {"recording alone": ORANGE, "new steps only": BLUE, "recording and new steps": GREEN}
for name, (steps, returns) in curves.items():
    panel.plot(steps, returns, "o-", color=colors[name], linewidth=2, markersize=4, label=name)
panel.axhline(np.mean(recorded_returns), color=GREY, linestyle="--", label="the recorded controller")
panel.set(
    title="Pendulum-v1, one seed per curve",
    xlabel="environment steps (recording alone: updates)",
    ylabel="evaluation return",
)
panel.legend(frameon=False)
show(figure, "offline_curves")

# %% [markdown]
# *Each point is the mean return of five evaluation episodes.
# Dashed line: mean return of the recorded episodes.*
#
# From the command line, two similar runs, with the default settings for Pendulum, are
#
# ```
# interreplay train --trainer TD3 --env Pendulum-v1 --buffer NMER --offline_data recording --bc_alpha 2.5 \
#     --normalize_observations --total_env_steps 0 --updates 2500
# interreplay train --trainer SAC --env Pendulum-v1 --buffer NMER --offline_data recording --offline_share .5
# ```
#
# **The answer.** `Offline` makes a recording a source of batches, for every replay method;
# `Mix` combines it with new steps.
# Here the recording alone is enough to exceed the controller that recorded it,
# because the noise averages out.
# One seed per curve does not show how much recorded data help in general:
# compare at least five seeds.
# [Offline data](../docs/offline-data.md) describes formats, checks, RLPD and further settings.

# %%
for name, (_, returns) in curves.items():
    print(f"{name}: best evaluation return {max(returns):.0f}")
assert max(curves["recording alone"][1]) > np.mean(recorded_returns)
