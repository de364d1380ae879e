# %% [markdown]
# # Train on your own environment
#
# *Question: what does an environment need, and how do I find mistakes in it before a long run?*
#
# The task is a boat that crosses a river.
# The current pushes the boat downstream, fastest in the middle of the river.
# The boat starts anywhere on the left bank and must reach a dock on the right bank.

# %%
import logging
import warnings

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from matplotlib import pyplot as plt
from pictures import BLUE, GREY, ORANGE, show

from interreplay.rllib import SACConfig

warnings.filterwarnings("ignore")
logging.getLogger("ray").setLevel(logging.ERROR)
torch.set_num_threads(1)

# %% [markdown]
# ## Write the environment
#
# An environment is a class of [Gymnasium](https://gymnasium.farama.org)
# with two spaces and two methods:
#
# - `observation_space` and `action_space` give shapes and bounds. Actions need finite bounds.
# - `reset` starts an episode and returns the first observation.
# - `step` returns the next observation, the reward, `terminated`, `truncated`, and a dictionary.
#
# `terminated` means that no rewards follow.
# A time limit is not part of the task, so it belongs to `gym.register`, which sets `truncated`.
# `is_success` in the dictionary is optional: training and reports then show a success rate.


# %%
class River(gym.Env):
    """A boat that crosses a river from a random place on the left bank to a dock on the right bank.

    Observations are the position (x, y), between −1 and 1. Actions are the boat's velocity relative to the water.
    """

    DOCK = np.array([0.9, 0.4])
    RADIUS = 0.15
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, current=0.08):
        self.current = current

    def flow(self, x):
        """Return the speed of the water per step."""
        return -self.current * (1 - x**2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = np.array([-0.9, self.np_random.uniform(-0.9, 0.9)])
        return self.position.astype(np.float32), {}

    def step(self, action):
        velocity = 0.1 * np.clip(action, -1, 1)
        velocity[1] += self.flow(self.position[0])
        self.position = np.clip(self.position + velocity, -1, 1)
        distance = float(np.linalg.norm(self.position - self.DOCK))
        docked = distance < self.RADIUS
        return self.position.astype(np.float32), -distance, docked, False, {"is_success": docked}


gym.register("River-v0", entry_point=River, max_episode_steps=60)

# %% [markdown]
# ## Check it
#
# Gymnasium's checker finds violations of the interface.
# A random policy shows the scale of returns and whether episodes end as expected.


# %%
def episode(policy, seed):
    """Return the positions of one episode (T + 1, 2), its return, and whether the boat has docked."""
    environment = gym.make("River-v0")
    obs, _ = environment.reset(seed=seed)
    positions = [obs]
    total = 0.0
    while True:
        obs, reward, terminated, truncated, _ = environment.step(policy(obs))
        positions.append(obs)
        total += float(reward)
        if terminated or truncated:
            return np.array(positions), total, terminated


check_env(gym.make("River-v0").unwrapped, skip_render_check=True)
random = np.random.default_rng(0)
before = [episode(lambda obs: random.uniform(-1, 1, 2), seed) for seed in range(20)]
random_return = np.mean([total for _, total, _ in before])
print(f"random policy: mean return {random_return:.0f}, ", end="")
print(f"{sum(docked for _, _, docked in before)} of 20 episodes reach the dock")

# %% [markdown]
# interreplay reports the mistakes that it can detect in one line before training starts.
# Two examples: actions without bounds, and a replay method that requires goals,
# which this task does not have.


# %%
class Unbounded(River):
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


gym.register("Unbounded-v0", entry_point=Unbounded, max_episode_steps=60)
for name, method in (("Unbounded-v0", "NMER"), ("River-v0", "HER")):
    try:
        SACConfig().environment(name).replay(method, capacity=10_000).build_algo()
    except Exception as error:
        print(f"{name} with {method}: {error}\n")

# %% [markdown]
# ## Train
#
# Training uses the registered id like any other environment;
# `env_config` holds arguments of the class.


# %%
config = (
    SACConfig()
    .environment("River-v0", env_config={"current": 0.08})
    .replay("NMER", capacity=10_000, k=10)
    .training(
        actor_lr=3e-3,
        critic_lr=3e-3,
        alpha_lr=3e-3,
        tau=0.02,
        hiddens=(64, 64),
        train_batch_size_per_learner=64,
        num_steps_sampled_before_learning_starts=250,
        steps_per_iteration=250,
    )
    .evaluation(evaluation_interval=1, evaluation_duration=5)
    .debugging(seed=0)
)
algorithm = config.build_algo()
steps, returns = [], []
while algorithm.env_steps < 2_000:
    result = algorithm.train()
    steps.append(algorithm.env_steps)
    returns.append(result["evaluation"]["env_runners"]["episode_return_mean"])
after = [episode(algorithm.act, seed) for seed in range(20)]
algorithm.stop()

# %% [markdown]
# The left plot shows evaluation returns during training.
# The other plots show the paths of 20 episodes, before and after training;
# the circle is the dock, and arrows show the current.

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3.6))
panels[0].plot(steps, returns, "o-", color=BLUE, linewidth=2)
panels[0].axhline(random_return, color=GREY, linestyle="--")
panels[0].annotate("random policy", (2_000, random_return), color=GREY, ha="right", va="bottom")
panels[0].set(title="learning curve", xlabel="environment steps", ylabel="evaluation return")
for panel, paths, color, title in (
    (panels[1], before, GREY, "before training"),
    (panels[2], after, BLUE, "after training"),
):
    for x in np.linspace(-0.8, 0.8, 9):
        panel.arrow(x, 0.98, 0, 4 * River().flow(x), color="#C5D9E8", width=0.015, length_includes_head=True)
    for path, _, _ in paths:
        panel.plot(path[:, 0], path[:, 1], color=color, linewidth=1, alpha=0.7)
    panel.add_patch(plt.Circle(River.DOCK, River.RADIUS, color=ORANGE, alpha=0.8))
    panel.set(title=title, xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xlabel="x", ylabel="y")
show(figure, "river_paths")

# %% [markdown]
# ## Use it from the command line
#
# Save the imports of Gymnasium and NumPy,
# the class `River` and the line that registers `River-v0` as `rivers.py` in your working folder.
# Then train:
#
# ```
# interreplay train --env rivers:River-v0 --buffer NMER --total_env_steps 20000
# interreplay train --env rivers:River-v0 --env_kwargs current=.12 --buffer NMER
# ```
#
# **The answer.** An environment needs two spaces, two methods, and a line that registers it.
# `check_env`, a random policy, and the checks before training find most mistakes within seconds.
# [Your own environment](../docs/own-environment.md) describes Dict observations,
# goals, images, and wrappers.

# %%
docked = sum(docked for _, _, docked in after)
print(f"trained policy: mean return {np.mean([total for _, total, _ in after]):.0f}, ", end="")
print(f"{docked} of 20 episodes reach the dock")
assert docked >= 15
