# %% [markdown]
# # What does experience replay draw?
#
# *Question: how alike are the rows of a batch, and how large their errors, by each way to draw it?*
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
import warnings

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREEN, ORANGE, show

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
# **The answer.** Only Last-64 draws rows that belong together: they lie a few hundredths of uniform rows' time apart,
# and their states are more alike. PER's rows lie as far apart as Uniform's, with errors two to three times as large.
# So replay does two things that can be had one by one, and what each is worth can be asked. That is the question of
# `studies/experience_replay.yaml`, with six methods, three tasks and ten seeds; what its runs answer is said by
# `python -m benchmarks.experience_replay RESULTS`.
