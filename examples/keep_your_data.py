# %% [markdown]
# # Old data, new reward
#
# *Question: can a run with another reward start from the transitions of an earlier run?*
#
# An agent has learned to swing up a pole (Pendulum).
# Now the task changes: the pole should turn at 6 radians per second.
# The transitions of the first run are kept.
# A function recomputes their rewards, and the second run learns from them.

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
from pictures import BLUE, GREY, show

from interreplay import Mix
from interreplay.environments.relabeled import Relabeled
from interreplay.experience.store import ExperienceStore
from interreplay.rllib import SACConfig

warnings.filterwarnings("ignore")
logging.getLogger("ray").setLevel(logging.ERROR)
torch.set_num_threads(1)
results = Path(tempfile.mkdtemp())
os.environ["INTERREPLAY_CACHE"] = str(results / "cache")
STEPS = 1_500

# %% [markdown]
# ## Keep the transitions of a run
#
# `algorithm.keep_experience(folder)` writes every transition into a store.
# `interreplay train` does this by default.


# %%
def configured(environment, seed):
    return (
        SACConfig()
        .environment(environment)
        .replay("Uniform", capacity=10_000)
        .training(
            actor_lr=3e-3,
            critic_lr=3e-3,
            alpha_lr=3e-3,
            tau=0.02,
            hiddens=(64, 64),
            train_batch_size_per_learner=64,
            num_steps_sampled_before_learning_starts=400,
            steps_per_iteration=200,
        )
        .debugging(seed=seed)
    )


def train(config, steps):
    """Train, and return the env steps and the returns of evaluations."""
    algorithm = config.evaluation(evaluation_interval=1, evaluation_duration=3).build_algo()
    curve = []
    while algorithm.env_steps < steps:
        result = algorithm.train()
        curve.append((algorithm.env_steps, result["evaluation"]["env_runners"]["episode_return_mean"]))
    algorithm.stop()
    return np.array(curve)


first = configured("Pendulum-v1", seed=0).build_algo()
writer = first.keep_experience(results / "first" / "experience")
while first.env_steps < STEPS:
    first.train()
writer.close()
first.stop()

# %% [markdown]
# ## Look at it
#
# A store is a folder of column files. Every column is an array that is mapped into memory.
# `interreplay experience FOLDER` prints a line per run.

# %%
store = ExperienceStore(results / "first" / "experience")
episodes = store.episodes()
speeds = store.column("next_obs")[:, 2]
print(f"{store.rows:,} rows, {len(episodes.ids)} episodes, {store.nbytes / 1e6:.1f} MB")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.plot(episodes.ends, episodes.returns, "o-", color=BLUE)
left.set(title="return of each kept episode", xlabel="env steps", ylabel="return (upright)")
right.hist(speeds, bins=40, color=GREY)
right.axvline(6.0, color=BLUE)
right.set(title="angular speeds in the kept rows; line: the new goal", xlabel="radians per second", ylabel="rows")
show(figure, "kept_rows")

# %% [markdown]
# ## Change the reward
#
# The function receives arrays of n rows.
# It serves the stored rows (`relabel=`) and the running environment (`Relabeled`).
# On the command line, `--relabel rewards.py:reward` does both.


# %%
def reward(obs, action, next_obs, **columns):
    """Turn at 6 radians per second."""
    return -((next_obs[:, 2] - 6.0) ** 2) / 36.0 - 0.001 * action[:, 0] ** 2


class Turning(Relabeled):
    """Pendulum with the new reward."""

    def __init__(self, config):
        super().__init__(gym.make("Pendulum-v1"), reward)


old = {"type": "Offline", "data": str(results / "first"), "relabel": reward}
curves = {}
for seed in range(2):
    curves["from nothing", seed] = train(configured(Turning, seed=10 + seed), 800)
    mix = Mix({"online": "Uniform", "offline": old}, {"offline": 0.5})
    config = configured(Turning, seed=10 + seed).replay(mix, capacity=10_000)
    config.training(num_steps_sampled_before_learning_starts=0)
    curves["old data, new reward", seed] = train(config, 800)

# %%
figure, panel = plt.subplots(figsize=(6, 3.4))
for (name, seed), curve in curves.items():
    color = GREY if name == "from nothing" else BLUE
    panel.plot(curve[:, 0], curve[:, 1], "o-", color=color, markersize=3, label=name if seed == 0 else None)
panel.set(title="turning the pole: one line per seed", xlabel="env steps of the new run", ylabel="return (turning)")
panel.legend(frameon=False)
show(figure, "new_reward")

# %% [markdown]
# **The answer.** Yes: rewards are a function of stored columns,
# so the transitions of the first run serve the new task.
# A run with old data learns from its first step on;
# a run without old data first has to collect transitions.
# Two seeds cannot show how large the effect is: seeds differ as much as the two kinds of runs.
# [A study](../docs/studies/relabeled-data.md) measured the effect with five seeds:
# old data did not speed up learning, and data with old rewards did harm.

# %%
areas = {name: np.mean([c[:, 1].mean() for (n, _), c in curves.items() if n == name]) for name, _ in curves}
print({name: round(float(area), 1) for name, area in areas.items()})
assert np.isfinite(list(areas.values())).all()
