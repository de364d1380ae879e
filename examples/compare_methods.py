# %% [markdown]
# # Compare two methods
#
# *Question: I have two replay methods; which one learns from fewer steps, and how sure can I be?*
#
# This page compares uniform replay with NMER on Pendulum.
# It trains both with three seeds, draws the curves, creates a report,
# and reads the report's interval.

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from pictures import BLUE, GREY, show

from interreplay.analysis import read_runs

repository = Path.cwd().parent if Path.cwd().name == "examples" else Path.cwd()
folder = Path(tempfile.mkdtemp())
environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
COLORS = {"Uniform": GREY, "NMER": BLUE}

# %% [markdown]
# ## Write down the comparison
#
# Write the comparison into a file before the first run.
# Both methods get the same settings:
# SAC with layer normalization in the critics, two updates per environment step, and small networks.
# Only the replay method and the seed differ between the runs.

# %%
STUDY = """
buffers: [Uniform, NMER]
envs: [Pendulum-v1]
seeds: 3
settings:
  total_env_steps: 1000
  steps_per_iteration: 200
  learning_starts: 200
  updates_per_step: 2
  critic_layer_norm: true
  hiddens: [64, 64]
  train_batch_size: 64
  actor_lr: 0.003
  critic_lr: 0.003
  alpha_lr: 0.003
  tau: 0.02
  evaluation_interval: 1
  evaluation_num_episodes: 3
"""
(folder / "comparison.yaml").write_text(STUDY)


def interreplay(*words):
    """Run a command of interreplay in the comparison's folder and return its output, with short paths."""
    command = [sys.executable, "-m", "interreplay", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    done = subprocess.run(command, cwd=folder, env=environment, **pipes)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(f"{folder}/", "").rstrip()


# %% [markdown]
# ## Run it
#
# `interreplay study` trains all six runs at once in two processes (`--together 2`).
# Runs of a process update networks of equal shapes as one, which saves time:
# this takes about a minute on two processors.

# %%
output = interreplay("study", "comparison.yaml", "--output_dir", "results", "--together", "2")
for run in read_runs([folder / "results"]):
    print(f"{run.method}, seed {run.description.seed}: {run.state}, {run.steps} steps")

# %% [markdown]
# ## Make the report
#
# `interreplay report` reads the results and prints a summary.
# It also writes a page, `report/index.html`, and tables, such as `report/efficiency.csv`.
# The summary compares the methods in one sentence, and `efficiency.csv` holds its numbers.
# With fewer than five seeds, it states only the interval.

# %%
print(interreplay("report", "results", "--output_dir", "report", "--baseline", "Uniform"))

# %%
table = pd.read_csv(next((folder / "report").rglob("efficiency.csv"))).set_index("method")
shown = ["runs", "auc", "auc_low", "auc_high", "final", "auc_ratio", "auc_ratio_low", "auc_ratio_high"]
print(table[shown].T.round(2).to_string())

# %% [markdown]
# `auc` is the mean return over all steps of the curve, from −1,500 (hanging) to about −130 (upright).
# `final` is the mean return over the last tenth of the steps.
# `auc_ratio` is the ratio of the two areas after normalization:
# 0 is random play and 1 the final return of the better method.
# `low` and `high` are the ends of 95 % confidence intervals.
#
# ## Draw all seeds
#
# The left plot shows the learning curve of every seed. A mean alone would hide how much seeds differ.
# The middle plot reduces every curve to its mean return.
# The right plot shows the ratio and its interval.

# %%
runs = pd.read_csv(next((folder / "report").rglob("runs.csv")))
curves = {"Uniform": [], "NMER": []}
for run in read_runs([folder / "results"]):
    results = run.results.dropna(subset=["evaluation"])
    curves[run.method].append(results.set_index("env_steps")["evaluation"])
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8), width_ratios=(2, 1, 1.2))
for place, (method, seeds) in enumerate(curves.items()):
    color = COLORS[method]
    for curve in seeds:
        left.plot(curve.index, curve, color=color, linewidth=0.8, alpha=0.6)
    mean = pd.concat(seeds, axis=1).mean(axis=1)
    left.plot(mean.index, mean, color=color, linewidth=2.4, label=f"{method}, mean of {len(seeds)} seeds")
    areas = runs.loc[runs["method"] == method, "auc"]
    middle.plot(np.full(len(areas), place), areas, "o", color=color)
    middle.plot([place - 0.2, place + 0.2], [areas.mean()] * 2, color=color, linewidth=2.4)
left.set(title="learning curves", xlabel="environment steps", ylabel="evaluation return")
left.legend(frameon=False)
middle.set(title="mean of each seed", xlim=(-0.5, 1.5), xticks=[0, 1], xticklabels=list(curves))
ratio, low, high = table.loc["NMER", ["auc_ratio", "auc_ratio_low", "auc_ratio_high"]].astype(float)
right.plot([low, high], [0, 0], color=BLUE, linewidth=2.4)
right.plot([ratio], [0], "o", color=BLUE)
right.axvline(1, color=GREY, linestyle="--")
right.set(title="area of NMER / Uniform", xlabel="ratio, 95 % interval (1: equal)", yticks=[], ylim=(-1, 1))
show(figure, "compare_methods")

# %% [markdown]
# *Thin lines and dots: individual seeds.
# Thick lines: means of three seeds.
# Dots of seeds with equal returns coincide.*
#
# ## Read the interval
#
# The ratio is an estimate: three other seeds would give another one.
# The interval shows how far the estimate varies if seeds are drawn again from those that were run.
#
# - The interval is above 1: an improvement, for this task and these settings.
# - The interval is below 1: a deterioration.
# - The interval contains 1: no detectable difference.
#   This does not show that the methods are equal.
#   The interval's ends are the effects that remain plausible.
#
# With three seeds, none of these statements is a conclusion.

# %%
if low > 1:
    print(f"NMER has the larger area: even the lower end, {low:.2f}, is above 1.")
elif high < 1:
    print(f"NMER has the smaller area: even the upper end, {high:.2f}, is below 1.")
else:
    print(f"The interval contains 1: between {low:.2f} and {high:.2f}, an effect in either direction is plausible.")

# %% [markdown]
# ## Why this is weak evidence
#
# **Three seeds.** The interval resamples three values per method.
# It cannot include the effect of a failing seed if none of the three failed.
# Intervals from so few seeds are too narrow:
# they miss the true ratio more often than 5 % of the time.
# With three seeds, the interval of a mean simply ranges from the worst seed to the best one,
# as the rows `auc_low` and `auc_high` and the dots show.
# A single unusual seed moves the estimate far.
#
# **One task.** The interval describes new seeds, not new tasks.
# A method can help on one task and harm on another.
# Pendulum is small, and results need not carry over to harder tasks.
#
# **Choices after the fact.** Many statistics fit the same curves:
# areas, final returns, steps to a threshold.
# If you try several and report the best, one will look significant by chance.
# The same holds for adding seeds until the interval excludes 1.
#
# ## What a real study does
#
# A real study fixes these points before its first run:
#
# 1. the tasks: several, chosen without looking at the methods' results;
# 2. the methods and all settings, with the same tuning effort for each;
# 3. the number of seeds: five at least, ten where seeds differ much;
# 4. the statistic: one number per run, such as the area over given steps;
# 5. the rule: which interval leads to which conclusion, and what happens to failed runs.
#
# It then reports every run, including results without a difference.
# [NMER with SAC and the update ratio](../docs/studies/sac-nmer-ratio.md) is such a study;
# the comments of [its file](../studies/sac_nmer_ratio.yaml) state all five points.
# [Studies on clusters](../cluster_deployment/README.md) describes how to run one,
# and [Comparing runs](../docs/reports.md) defines the report's statistics.
#
# **The answer.** `interreplay study` trains both methods with the same settings and seeds,
# and `interreplay report` states the ratio of their areas with an interval.
# Read the interval, not the mean curves, and apply it only to this task and these settings.
# Before you choose a method, repeat the comparison with more seeds on several tasks.

# %%
finished = sum(len(seeds) for seeds in curves.values())
print(f"{finished} of 6 runs have finished")
assert finished == 6
assert low <= ratio <= high
