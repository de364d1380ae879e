# %% [markdown]
# # Run a study on a cluster
#
# *Question: how do I compare two methods with many training runs,
# on a Slurm cluster or on one computer?*
#
# A study is a file that lists replay methods, environments and seeds.
# Every combination is one training run.
# On a cluster each run is a task of a Slurm array.
# On one computer the same file runs in parallel processes.
# This page prepares a study for a cluster, runs it on this computer, interrupts it,
# resumes it, and reads the result.

# %%
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from matplotlib import pyplot as plt
from pictures import BLUE, GREY, show

from interreplay.analysis import make_report
from interreplay.experiments.report.tables import summaries

repository = Path.cwd().parent if Path.cwd().name == "examples" else Path.cwd()
folder = Path(tempfile.mkdtemp())
environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(repository)}

# %% [markdown]
# ## Write the study
#
# The task is Pendulum, with settings that learn it within 1,000 steps.
# Two methods, one environment and two seeds are four runs.

# %%
STUDY = """
buffers: [Uniform, NMER]
envs: [Pendulum-v1]
seeds: 2
settings:
  total_env_steps: 1000
  steps_per_iteration: 250
  learning_starts: 250
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
  checkpoint_freq: 1
"""
study = folder / "pendulum.yaml"
study.write_text(STUDY)


def command(*words):
    """Run a command of the repository in the study's folder and print its output, with short paths."""
    script = [sys.executable, str(repository / words[0]), *words[1:]]
    done = subprocess.run(script, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    text = done.stdout.replace(f"{repository}/", "").replace(f"{folder}/", "")
    text = text.replace(str(repository), "~/interreplay")
    print(text.rstrip())
    assert done.returncode == 0


# %% [markdown]
# `--dry_run` lists the runs without training.

# %%
command("cluster_run.py", "pendulum.yaml", "--dry_run")

# %% [markdown]
# ## Submit it to Slurm
#
# On a login node of the cluster, `submit.py` checks every run and calls `sbatch`.
# With `--dry-run` it prints the command instead, which also works without Slurm.
# `--time` limits one start, not the study:
# before the limit, each run saves a checkpoint, is requeued, and resumes.

# %%
command("cluster_deployment/submit.py", "single", "pendulum.yaml", "--time", "1:00:00", "--mem", "2G", "--dry-run")

# %% [markdown]
# On a cluster, `squeue --me` would now list four tasks.
# Each task executes one run with `cluster_run.py pendulum.yaml --run N`.
#
# ## Run it on this computer
#
# Here the same study runs in two parallel processes. It is interrupted after the first
# checkpoint, as by a time limit.

# %%
local = [sys.executable, str(repository / "cluster_run.py"), "pendulum.yaml", "--output_dir", "results/pendulum"]
with (folder / "first.log").open("w") as log:
    started = subprocess.Popen([*local, "--max_concurrent", "2"], cwd=folder, env=environment, stdout=log, stderr=log)
    while started.poll() is None and not any((folder / "results").rglob("checkpoint_*")):
        time.sleep(0.2)
    started.terminate()
    code = started.wait()
print(f"interrupted: exit code {code}")

# %% [markdown]
# Resuming continues the interrupted runs from their checkpoints and starts the others.
# The results are the same as without the interruption, bit for bit.

# %%
command("cluster_run.py", "--resume", "results/pendulum", "--max_concurrent", "2")

# %% [markdown]
# ## Read the result
#
# `interreplay report results/pendulum` writes a page with curves,
# intervals and one sentence per comparison.
# `make_report` does the same in Python and returns the numbers.

# %%
report = make_report([folder / "results"], folder / "report", baseline="Uniform")
task = report.sections[0].tasks[0]
figure, panel = plt.subplots(figsize=(7, 3.8))
for method, curves in task.own.items():
    color = GREY if method == "Uniform" else BLUE
    panel.plot(curves.steps, curves.values.T, color=color, linewidth=0.8, alpha=0.5)
    panel.plot(curves.steps, curves.values.mean(0), color=color, linewidth=2.2, label=f"{method}, mean of 2 seeds")
title = "Pendulum-v1 (thin lines: individual seeds)"
panel.set(title=title, xlabel="environment steps", ylabel="evaluation return")
panel.legend(frameon=False)
show(figure, "cluster_study_curves")

# %%
for sentences in summaries(report.sections[0], report.tables).values():
    print(*sentences, sep="\n")

# %% [markdown]
# **The answer.** One file describes the study;
# `submit.py` runs it on a cluster and `interreplay study` on one computer.
# An interruption costs the time since the last checkpoint, and the same command resumes the study.
# Two seeds are too few for a conclusion; use five or more.
# [Studies on clusters](../cluster_deployment/README.md) describes GPUs, requeueing,
# and what to check on a new cluster.

# %%
finished = [run for run in report.runs if run.state == "finished"]
print(f"{len(finished)} of 4 runs have finished")
assert len(finished) == 4
