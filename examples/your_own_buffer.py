# %% [markdown]
# # Write your own replay method
#
# *Question: how much code does a new method need?*
#
# A replay method has three parts:
# a selector draws anchors, a neighborhood finds partners for them, and a synthesizer makes the batch.
# Usually one part is new and the others exist.
# Early in training most of the buffer is bad behavior.
# The method in this example therefore **blends each transition with a near one that did better**:
# the one with the highest reward among its k nearest neighbors.

# %%
import numpy as np
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREEN, GREY, show

from interreplay import ReplayBuffer, Transitions
from interreplay.neighborhood import KNN
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from replay_buffers import NMER, Uniform

torch.set_num_threads(1)

# %% [markdown]
# ## The new part
#
# A neighborhood returns the stored rows that each anchor may be blended with:
# slots of shape `(n, 1)`, −1 for none.
# `KNN` with `draw=None` returns all k neighbors; only the choice among them is new.
# The code processes whole batches, without Python loops over rows.


# %%
class BetterNeighbor(KNN):
    """The highest-reward row of each anchor's k nearest; −1 if the anchor's reward is higher."""

    def __init__(self, k: int = 10):
        super().__init__(k, draw=None)

    def neighbor_slots(self, storage, slots, rng):
        near = super().neighbor_slots(storage, slots, rng)
        rewards = storage.column("rewards")
        of_near = torch.where(near >= 0, rewards[near.clamp(min=0)], -torch.inf)
        best, place = of_near.max(dim=1)
        chosen = near.gather(1, place.unsqueeze(1))
        return torch.where(best.unsqueeze(1) > rewards[slots].unsqueeze(1), chosen, -1)


# %% [markdown]
# ## The method
#
# Arguments are keywords; every method has `seed`, `gamma` and `device`.


# %%
class UpwardMixup(ReplayBuffer):
    """Blend each anchor with the best of its k nearest neighbors, if it has a higher reward."""

    def __init__(self, *, capacity=1_000_000, k=10, alpha=0.75, n_step=1, gamma=0.99, seed=None, device="cpu"):
        super().__init__(capacity, None, BetterNeighbor(k), Mixup(Beta(alpha)), None, n_step, gamma, seed, device)


# %% [markdown]
# ## Test the method
#
# Test it before training: on generated rows with known rewards,
# compare it with a naive row-by-row definition.


# %%
def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    states = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, (count, 1)).astype(np.float32)
    rewards = np.sin(3 * states[:, 0]) + 0.5 * rng.normal(size=count)
    never = np.zeros(count, bool)
    return Transitions(states, actions, rewards.astype(np.float32), states, never, ~never)


stored = rows(600)
buffer = UpwardMixup(capacity=600, seed=1)
buffer.add(stored)
sample = buffer.sample(256)

z = np.concatenate([stored.obs, stored.actions], axis=1)
z = z / z.std(axis=0)
for anchor, partner in zip(sample.slots.tolist(), sample.neighbor_slots.tolist(), strict=True):
    away = np.linalg.norm(z - z[anchor], axis=1)
    away[anchor] = np.inf
    nearest = np.argsort(away)[:10]
    best = nearest[np.argmax(stored.rewards[nearest])]
    better = stored.rewards[best] > stored.rewards[anchor]
    assert partner == (best if better else -1), (anchor, partner, best)
print(f"256 rows as defined; {int((sample.neighbor_slots >= 0).sum())} of them blended")

# %% [markdown]
# The next plot compares the rewards of `UpwardMixup` with the rewards of uniform replay and NMER.
# The method is optimistic, which is its idea and its risk:
# blends with lucky rewards overestimate the rewards of the environment.

# %%
figure, panel = plt.subplots(figsize=(7, 3.4))
bins = np.linspace(-2.5, 2.5, 41)
for name, recipe, color in (("Uniform", Uniform, GREY), ("NMER", NMER, BLUE), ("UpwardMixup", UpwardMixup, GREEN)):
    other = recipe(capacity=600, seed=1)
    other.add(stored)
    rewards = np.concatenate([other.sample(256).transitions.rewards.numpy() for _ in range(20)])
    height, _ = np.histogram(rewards, bins, density=True)
    panel.stairs(height, bins, color=color, linewidth=2)
    panel.axvline(rewards.mean(), color=color, linestyle="--", linewidth=1)
    panel.annotate(
        f"{name}: mean {rewards.mean():+.2f}",
        (0.02, 0.9 - 0.1 * len(panel.texts)),
        xycoords="axes fraction",
        color=color,
    )
panel.set(title="rewards in a batch", xlabel="reward", ylabel="density")
show(figure, "own_rewards")

# %% [markdown]
# *Densities of the rewards in 20 batches of 256 rows. Dashed lines: means.*
#
# ## Train with SAC
#
# A class can replace a name of the catalog.
# A few hundred steps show that it runs;
# whether it *helps* requires several seeds and `interreplay report`.

# %%
from interreplay.rllib import SACConfig

config = (
    SACConfig()
    .environment("Pendulum-v1")
    .replay(UpwardMixup, capacity=10_000, k=5)
    .training(num_steps_sampled_before_learning_starts=200, steps_per_iteration=300, hiddens=(64, 64))
    .debugging(seed=0)
)
algorithm = config.build_algo()
result = algorithm.train()
algorithm.stop()
replay = result["replay_buffer"]
print(f"critic loss {result['learners']['default_policy']['critic_loss']:.2f}, ", end="")
print(f"{replay['blended_share']:.0%} of the rows blended, ", end="")
print(f"partners at {replay['neighbor_distance']:.2f} of a random pair's distance")

# %% [markdown]
# **The answer.** The new part has ten lines, the method five.
# [Adding methods and algorithms](../docs/extending.md) describes selectors,
# synthesizers, saved states, and how to publish a method in the catalog.
