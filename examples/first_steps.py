# %% [markdown]
# # First steps: train, watch, compare
#
# *Question: how do I train an agent with NMER, and is it better than uniform replay?*
#
# The task is Pendulum: swing up a pole and keep it upright, with a motor too weak to lift it at once.
# Returns range from about −1,500 (hanging) to −130 (upright within a swing or two).

# %%
import logging
import math
import tempfile
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREY, show

from interreplay import log_to
from interreplay.analysis import make_report
from interreplay.rllib import SACConfig

warnings.filterwarnings("ignore")
logging.getLogger("ray").setLevel(logging.ERROR)
torch.set_num_threads(1)
STEPS = 1_000

# %% [markdown]
# ## Train
#
# The configuration is RLlib's, plus `.replay(...)` for the buffer:
# a name from `replay_buffers` and its arguments.
# The networks are small, so that training takes seconds; omit `hiddens` for the sizes of the paper.
# Two updates per environment step and layer normalization in the critics speed up learning.


# %%
def configured(method, seed, **arguments):
    return (
        SACConfig()
        .environment("Pendulum-v1")
        .replay(method, capacity=10_000, **arguments)
        .training(
            actor_lr=3e-3,
            critic_lr=3e-3,
            alpha_lr=3e-3,
            tau=0.02,
            hiddens=(64, 64),
            train_batch_size_per_learner=64,
            num_steps_sampled_before_learning_starts=250,
            steps_per_iteration=250,
            updates_per_step=2,
            critic_layer_norm=True,
        )
        .evaluation(evaluation_interval=1, evaluation_duration=3)
        .debugging(seed=seed)
    )


def train(method, seed, folder, **arguments):
    """Train, and write results in the format of `interreplay train`, for the report."""
    algorithm = configured(method, seed, **arguments).build_algo()
    with log_to(algorithm, folder / f"{method}_s{seed}", total_env_steps=STEPS) as log:
        while algorithm.env_steps < STEPS:
            log.write(algorithm.train())
    return algorithm


results = Path(tempfile.mkdtemp())
algorithm = train("NMER", 0, results, k=10)

# %% [markdown]
# ## Watch
#
# `algorithm.act(obs)` returns the best action in the environment's units.
# The left plot shows an episode without a screen:
# the pole every tenth of a second, pale at the start and dark at the end.
# The right plot shows its angle over time.
# For a window use `interreplay evaluate CHECKPOINT --render`,
# and for a video `--video pendulum.gif` in place of `--render`.


# %%
def episode(algorithm, seed=0):
    """Return the observations of one episode and its return."""
    environment = gym.make("Pendulum-v1")
    seen, total = [environment.reset(seed=seed)[0]], 0.0
    while True:
        obs, reward, terminated, truncated, _ = environment.step(algorithm.act(seen[-1]))
        seen.append(obs)
        total += float(reward)
        if terminated or truncated:
            return np.array(seen), total


seen, total = episode(algorithm)
algorithm.stop()
figure, (pole, angle) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=(1, 2))
for i in range(0, 100, 2):
    up, right = seen[i, 0], -seen[i, 1]
    pole.plot([0, right], [0, up], color=BLUE, alpha=0.1 + 0.9 * i / 100, linewidth=2)
pole.set(title="the first five seconds", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
degrees = np.degrees(np.unwrap(np.arctan2(seen[:, 1], seen[:, 0])))
angle.plot(np.arange(len(seen)) * 0.05, degrees, color=BLUE, linewidth=2)
angle.set(title=f"return {total:.0f}", xlabel="seconds", ylabel="degrees (0 and 360: upright)")
show(figure, "first_steps_episode")

# %% [markdown]
# ## Compare
#
# Train with uniform replay as well, and train both methods with a second seed.

# %%
for method, seed in (("Uniform", 0), ("NMER", 1), ("Uniform", 1)):
    train(method, seed, results, **({"k": 10} if method == "NMER" else {})).stop()

report = make_report([results], results / "report")
section = report.sections[0]
task = section.tasks[0]
figure, panel = plt.subplots(figsize=(6, 3.6))
for method, curves in task.own.items():
    color = GREY if method == "Uniform" else BLUE
    panel.plot(curves.steps, curves.values.T, color=color, linewidth=0.8, alpha=0.5)
    panel.plot(curves.steps, curves.values.mean(0), color=color, linewidth=2.2, label=f"{method}, mean of 2 seeds")
panel.set(title="Pendulum-v1", xlabel="environment steps", ylabel="evaluation return")
panel.legend(frameon=False)
show(figure, "first_steps_curves")

# %% [markdown]
# *Thin lines: individual seeds.
# Thick lines: means of two seeds.
# Each point is the mean return of three episodes.*
#
# **The answer.** Both methods learn within 1,000 steps.
# Two seeds are too few for a conclusion:
# the seeds of one method differ as much as the two methods do.
# `make_report` has written a page with intervals that states this.
# For real comparisons use at least five seeds, several environments, and `interreplay report`.

# %%
print(*(note for task in section.tasks for note in task.notes), sep="\n")
best = max(float(curves.values.mean(0).max()) for curves in task.own.values())
print(f"best mean evaluation return {best:.0f}")
assert best > -900 and math.isfinite(total)
