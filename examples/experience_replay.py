# %% [markdown]
# # What does experience replay draw?
#
# *Question: does replay help because the rows of a batch are less alike, or because their errors are larger?*
#
# Rows that come one after the other are alike: one state is nearly the next. Lin (1992) and Mnih et al. (2015) replay
# old rows, which are less so. Prioritized replay (Schaul et al. 2016) draws rows with large errors more often instead,
# and its rows are as independent as uniform ones, or nearly.
#
# Four ways to draw a batch:
#
# | | |
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
sys.path.insert(0, str(ROOT))  # the study is read by `benchmarks`, which is not installed

from benchmarks.studies.experience_replay import draw, read_runs
from benchmarks.studies.replay_explained import CORRELATION, ERROR, explained
from interreplay.rllib import DQNConfig

warnings.filterwarnings("ignore")
logging.getLogger("ray").setLevel(logging.ERROR)
torch.set_num_threads(1)

# %% [markdown]
# ## How alike are the rows of a batch?
#
# A small run of each on CartPole. While learning, each batch is compared with rows drawn uniformly from the same
# buffer at the same moment: of standardized states the mean |cos| over pairs, and how far apart in time two rows are.
# That is a batch's correlation *beyond* what independent rows of this buffer have; a buffer of one episode is alike
# however one draws.

# %%
STEPS, EVERY = 4_000, 500
ARMS = {"Last-64": ("Online", "#3E4C59"), "Uniform": ("Uniform", BLUE), "PER": ("PER", ORANGE), "CER": ("CER", GREEN)}


def watched(method):
    """What a short run of DQN tells of its batches, a row every 500 steps."""
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .replay(method, capacity=STEPS)
        .training(hiddens=(64, 64), lr=5e-4, train_batch_size=64, learning_starts=EVERY, steps_per_iteration=EVERY)
        .debugging(seed=0)
    )
    algorithm = config.training(epsilon_steps=2_000, target_update_period=250).build_algo()
    rows = []
    while algorithm.env_steps < STEPS:
        found = algorithm.train()["replay_buffer"]
        if "state_cosine" in found:
            rows.append(found | {"steps": algorithm.env_steps})
    algorithm.stop()
    return pd.DataFrame(rows)


live = {arm: watched(method) for arm, (method, _) in ARMS.items()}
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

# %%
last = {arm: found.iloc[-1] for arm, found in live.items()}
gaps = {arm: row["time_gap"] / row["time_gap_expected"] for arm, row in last.items()}
print(*(f"{arm}: rows {gap:.2f} of uniform rows' time apart" for arm, gap in gaps.items()), sep="\n")
assert gaps["Last-64"] < 0.2 < 0.8 < gaps["Uniform"] and np.isfinite(list(gaps.values())).all()

# %% [markdown]
# Only Last-64 draws rows that belong together: they lie a few hundredths of uniform rows' time apart, and their states
# are more alike. PER's rows lie as far apart as Uniform's, with errors two to three times as large. So replay does two
# things that can be had one by one.
#
# ## Which of the two helps?
#
# `studies/experience_replay.yaml` lets DQN learn by each way on three tasks, with two layers of 64, 50,000 steps and
# one update per step (MountainCar has its own settings), beside Online-1, the newest row alone, and for tasks with
# goals hindsight (HER). Its results are in `benchmarks/data/experience_replay`; nothing is run here. A run's *area* is
# the mean of its evaluations above what random actions return.

# %%
runs, evaluations = read_runs(ROOT / "benchmarks" / "data" / "experience_replay")
print(f"{len(runs)} runs, of {runs['seed'].nunique()} seeds")
figure = draw(runs, evaluations)
show(figure, "experience_replay_study")

# %%
full = runs[runs["capacity"] == 100_000]
print(full.pivot_table(index="task", columns="arm", values="area").round(1).to_string(na_rep="-"))

# %% [markdown]
# Over the runs of a task with batches of 64: Spearman's rank correlation of the area with one of the two measures, the
# other held fixed, and its interval by bootstrap over seeds.

# %%
for task in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"):
    found = runs[(runs["task"] == task) & (runs["arm"] != "Online-1")]
    alike, errors = explained(found, CORRELATION, ERROR, 500), explained(found, ERROR, CORRELATION, 500)
    print(f"{task}: {len(found)} runs; rows' correlation {alike}, errors {errors}")

# %% [markdown]
# **The answer.** Either, and which of them depends on the task. Rows that are less alike: with the newest 64 alone
# MountainCar is hardly learned and Acrobot has less than half of Uniform's area, while CartPole is learned as well.
# Larger errors: PER is ahead on CartPole, by 1.4, and level with Uniform on Acrobot and MountainCar. One row once
# (Online-1) teaches next to nothing anywhere, and hindsight has twice Uniform's area in both tasks with goals. Of a
# buffer of 100 rows, uniform batches have no excess over what *this buffer* holds, which is one episode: the measure
# does not see that. Intervals, capacities and how far to trust it: [the study](../docs/studies/experience-replay.md);
# `python -m benchmarks.studies.experience_replay benchmarks/data/experience_replay` prints every seed.
