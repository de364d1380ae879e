# %% [markdown]
# # What does experience replay draw?
#
# *Question: does replay help because the rows of a batch are less similar,
# or because their errors are larger?*
#
# Successive rows are similar: one state is nearly the next.
# Lin (1992) and Mnih et al. (2015) replay old rows, which are less similar.
# Prioritized replay (Schaul et al. 2016) draws rows with large errors more often.
# Prioritized rows are nearly independent, as uniform rows are.
#
# The example compares four ways to draw a batch:
#
# | method | rows |
# |---|---|
# | Last-64 | the newest 64 rows |
# | Uniform | any stored row |
# | PER | rows with large errors more often |
# | CER | as Uniform, with the newest row in each batch (Zhang & Sutton 2017) |

# %%
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pictures
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREEN, ORANGE, show

ROOT = Path(pictures.__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks` reads the study and is not installed

from benchmarks.studies.experience_replay import draw, read_runs
from benchmarks.studies.replay_explained import CORRELATION, ERROR, explained
from interreplay.rllib import DQNConfig

warnings.filterwarnings("ignore")
logging.getLogger("ray").setLevel(logging.ERROR)
torch.set_num_threads(1)

# %% [markdown]
# ## Similarity of the rows of a batch
#
# Each method runs for a short time on CartPole.
# During training, each batch is compared
# with rows drawn uniformly from the same buffer at the same moment.
# The measures are the mean |cos| over pairs of standardized states,
# and the distance of two rows in time.
# The difference is a batch's correlation *beyond* the correlation of independent rows of this buffer.
# If a buffer holds one episode, its rows are similar with any sampling method.

# %%
STEPS = 2_500
EVERY = 500
ARMS = {"Last-64": ("Online", "#3E4C59"), "Uniform": ("Uniform", BLUE), "PER": ("PER", ORANGE), "CER": ("CER", GREEN)}


def watched(method):
    """Statistics of the batches of a short DQN run, one row per 500 steps, and its episodes."""
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .replay(method, capacity=STEPS)
        .training(hiddens=(64, 64), lr=5e-4, train_batch_size=64, learning_starts=EVERY, steps_per_iteration=EVERY)
        .training(episode_table=True)
        .debugging(seed=0)
    )
    algorithm = config.training(epsilon_steps=1_500, target_update_period=250).build_algo()
    rows = []
    while algorithm.env_steps < STEPS:
        found = algorithm.train()["replay_buffer"]
        if "state_cosine" in found:
            rows.append(found | {"steps": algorithm.env_steps})
    algorithm.stop()
    return pd.DataFrame(rows), pd.DataFrame(algorithm.episode_table.take()).set_index("episode")


live = {}
episodes = {}
for arm, (method, _) in ARMS.items():
    live[arm], episodes[arm] = watched(method)
figure, panels = plt.subplots(1, 3, figsize=(12, 3.4))
for arm, (_, color) in ARMS.items():
    found = live[arm]
    excess = found["state_cosine"] - found["state_cosine_expected"]
    measures = (excess, found["time_gap"] / found["time_gap_expected"], found["td_error_mean"])
    for panel, values in zip(panels, measures, strict=True):
        panel.plot(found["steps"], values, "o-", color=color, markersize=3, label=arm)
titles = "|cos| beyond uniform rows'", "time between rows, × uniform rows'", "|TD error|"
for panel, title in zip(panels, titles, strict=True):
    panel.set(title=title, xlabel="environment steps")
panels[0].legend(frameon=False)
show(figure, "replay_batches")

# %% [markdown]
# *One run per method, one point per 500 steps.
# Left: similarity, minus the similarity of uniform rows.
# Middle: mean time between two rows, relative to uniform rows.
# Right: mean absolute TD error.*

# %%
last = {arm: found.iloc[-1] for arm, found in live.items()}
gaps = {arm: row["time_gap"] / row["time_gap_expected"] for arm, row in last.items()}
print(*(f"{arm}: rows {gap:.2f} of uniform rows' time apart" for arm, gap in gaps.items()), sep="\n")
assert gaps["Last-64"] < 0.2 < 0.8 < gaps["Uniform"] and np.isfinite(list(gaps.values())).all()

# %% [markdown]
# Only Last-64 draws neighboring rows: in time, they are a few hundredths as far apart
# as uniform rows, and their states are more similar.
# PER's rows are as far apart in time as Uniform's, with errors about twice as large.
# Replay therefore has two separable effects.
#
# ## Episodes
#
# With `episode_table=True`, the same runs have recorded one row per episode.
# On the command line, `--episode_table` writes them to `episodes.csv`.
# [Its columns](../docs/concepts.md#table-of-episodes)
# are averages over the updates during an episode.

# %%
figure, panels = plt.subplots(1, 2, figsize=(12, 3.4))
for arm, found in episodes.items():
    color = ARMS[arm][1]
    panels[0].plot(found["return"], color=color, linewidth=0.5, alpha=0.5)
    panels[0].plot(found["return"].rolling(20, min_periods=1).mean(), color=color, linewidth=2, label=arm)
    panels[1].plot(found["q_mean"].dropna(), "o-", color=color, markersize=4)
panels[0].set(title="return, which is the length on CartPole", xlabel="episode")
panels[1].set(title="mean Q-value of the batches, every 25th episode", xlabel="episode", ylim=(0, None))
panels[1].set_xlim(panels[0].get_xlim())
panels[0].legend(frameon=False)
show(figure, "replay_episodes")

# %% [markdown]
# *Left: thin lines are episodes, thick lines are means of the last 20. Right: Q-values.
# A run with longer episodes has fewer episodes in the same 2,500 steps.*

# %%
figure, panels = plt.subplots(1, 4, figsize=(14, 3.2))
for panel, name in zip(panels, ("mean", "median", "max", "std"), strict=True):
    for arm, found in episodes.items():
        smooth = found[f"td_error_{name}"].dropna().rolling(10, min_periods=1).mean()
        panel.plot(smooth, color=ARMS[arm][1], label=arm)
    panel.set(title=f"{name} of |TD error|", xlabel="episode", ylim=(0, None))
panels[0].legend(frameon=False)
show(figure, "replay_episode_errors")

# %% [markdown]
# *Statistics of a batch, averaged over the updates of an episode and over 10 episodes.*

# %%
figure, panel = plt.subplots(figsize=(7, 3.4))
for arm, found in episodes.items():
    smooth = found[["correlation_count", "correlation_count_expected"]].dropna().rolling(10, min_periods=1).mean()
    panel.plot(smooth["correlation_count"], color=ARMS[arm][1], label=arm)
    panel.plot(smooth["correlation_count_expected"], color=ARMS[arm][1], linewidth=1, linestyle=":")
panel.set(title="correlated pairs of a batch, of 2,016", xlabel="episode", ylim=(0, None))
panel.legend(frameon=False)
show(figure, "replay_episode_pairs")

# %% [markdown]
# *Solid: pairs of rows in a batch with |cos| above 0.9. Dotted: pairs of uniformly drawn rows.*

# %%
counts = {arm: found[["correlation_count", "correlation_count_expected"]].mean() for arm, found in episodes.items()}
for arm, (pairs, chance) in counts.items():
    print(f"{arm}: {pairs:.0f} correlated pairs, {chance:.0f} expected")
assert counts["Last-64"].iloc[0] > 1.2 * counts["Last-64"].iloc[1] and counts["Uniform"].iloc[0] < 400

# %% [markdown]
# Uniform and CER draw as many correlated pairs as uniformly drawn rows have,
# Last-64 about 1.4 times as many.
# PER draws more for a time, when a few similar rows have the largest errors.
# Compare the solid with the dotted lines, because independent rows have correlated pairs, too.
#
# ## Effect of each on learning
#
# `studies/experience_replay.yaml` trains DQN with each method on three tasks, with two layers of 64,
# 50,000 steps and one update per step (MountainCar has its own settings).
# It also covers Online-1, which draws only the newest row, and hindsight (HER) on tasks with goals.
# The results are stored in `benchmarks/data/experience_replay`; nothing is trained here.
# The *area* of a run is the mean of its evaluations above the return of random actions.

# %%
runs, evaluations = read_runs(ROOT / "benchmarks" / "data" / "experience_replay")
print(f"{len(runs)} runs, of {runs['seed'].nunique()} seeds")
figure = draw(runs, evaluations)
show(figure, "experience_replay_study")

# %% [markdown]
# *First row: evaluation returns; thin lines are seeds, thick lines are means.
# Second row: area by capacity with 95 % intervals.
# Other rows: one point per run.*

# %%
full = runs[runs["capacity"] == 100_000]
print(full.pivot_table(index="task", columns="arm", values="area").round(1).to_string(na_rep="-"))

# %% [markdown]
# The next cell prints Spearman's rank correlation of the area with each of the two measures,
# with the other measure held fixed, over the runs of a task with batches of 64.
# Intervals are bootstraps over seeds.

# %%
for task in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"):
    found = runs[(runs["task"] == task) & (runs["arm"] != "Online-1")]
    alike, errors = explained(found, CORRELATION, ERROR, 500), explained(found, ERROR, CORRELATION, 500)
    print(f"{task}: {len(found)} runs; rows' correlation {alike}, errors {errors}")

# %% [markdown]
# **The answer.** Both effects can help, depending on the task.
# Less similar rows: with the newest 64 rows alone, MountainCar is hardly learned,
# Acrobot has less than half of Uniform's area, and CartPole shows no detectable loss.
# Larger errors: PER has 1.4 times the area of Uniform on CartPole,
# and no detectable difference on Acrobot and MountainCar.
# With Online-1, next to nothing is learned on any task.
# Hindsight has twice Uniform's area on both tasks with goals.
# The measure misses the effect of a small buffer: a buffer of 100 rows holds an episode or two,
# and its batches are compared with rows of the same buffer.
# [The study](../docs/studies/experience-replay.md) has intervals, capacities and limitations.
# `python -m benchmarks.studies.experience_replay benchmarks/data/experience_replay` prints every
# seed.
