# %% [markdown]
# # What NMER does to transitions
#
# *Question: are blended transitions realistic?*
#
# A point moves on a ring.
# Its state is its position `(x, y)`, its action turns it by up to half a radian,
# and the reward is its height.
# Every real transition satisfies two rules:
# the state is on the ring, and the next state is the rotated state.
# A generated transition should satisfy them, too.
# Its deviation from them is its **on-manifold error**.

# %%
import numpy as np
import torch
from matplotlib import pyplot as plt
from pictures import BLUE, GREY, ORANGE, PINK, show

from interreplay import Transitions
from replay_buffers import NMER, NaiveMixup, Noise, Uniform

torch.set_num_threads(1)
TURN = 0.5


def turned(states, actions):
    """Next states of the simulator."""
    angle = TURN * actions[:, 0]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * states[:, 0] - sin * states[:, 1], sin * states[:, 0] + cos * states[:, 1]], axis=1)


def experience(rows, seed=0):
    """Random transitions, uniform on the ring."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(-np.pi, np.pi, rows)
    states = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    actions = rng.uniform(-1, 1, (rows, 1))
    never = np.zeros(rows, bool)
    return Transitions(
        obs=states.astype(np.float32),
        actions=actions.astype(np.float32),
        rewards=states[:, 1].astype(np.float32),
        next_obs=turned(states, actions).astype(np.float32),
        terminated=never,
        truncated=~never,
    )


# %% [markdown]
# Four buffers hold the same 500 transitions.
# `Uniform` replays them unchanged, `Noise` adds noise, `NaiveMixup` blends any two,
# and `NMER` blends each with one of its ten nearest neighbors, near in state *and* action.

# %%
METHODS = {
    "Uniform": (Uniform, GREY),
    "Noise": (Noise, PINK),
    "NaiveMixup": (NaiveMixup, ORANGE),
    "NMER": (NMER, BLUE),
}


def drawn(recipe, rows, batch=1000, **arguments):
    """A batch from a buffer with `rows` transitions."""
    buffer = recipe(capacity=rows, seed=0, **arguments)
    buffer.add(experience(rows))
    return buffer.sample(batch).transitions


def errors(batch):
    """Distance of states from the ring, and of next states from the simulator's next states."""
    states, actions, after = (part.numpy() for part in (batch.obs, batch.actions, batch.next_obs))
    off_ring = np.abs(np.linalg.norm(states, axis=1) - 1)
    off_outcome = np.linalg.norm(after - turned(states, actions), axis=1)
    return off_ring, off_outcome


# %%
figure, panels = plt.subplots(1, 4, figsize=(12, 3.4), sharex=True, sharey=True)
circle = np.linspace(0, 2 * np.pi, 200)
for panel, (name, (recipe, color)) in zip(panels, METHODS.items(), strict=True):
    batch = drawn(recipe, 500, batch=250)
    states, after = batch.obs.numpy(), batch.next_obs.numpy()
    panel.plot(np.cos(circle), np.sin(circle), color="#CCCCCC", linewidth=1)
    panel.plot(*np.stack([states, after], axis=2).transpose(1, 2, 0), color=color, linewidth=0.5, alpha=0.5)
    panel.plot(*states.T, ".", color=color, markersize=3)
    panel.set_title(f"{name}: {errors(batch)[0].mean():.3f} off the ring")
    panel.set_aspect("equal")
show(figure, "nmer_ring")

# %% [markdown]
# *Dots: states of 250 drawn transitions.
# Lines: from each state to its next state.
# Gray circle: the ring.*
#
# Naive mixup fills the disc: it trains on states that cannot occur.
# NMER stays on the ring, and none of its rows is a stored row.
#
# The next plot shows the outcomes.
# With more data, neighbors are nearer, and a small piece of the ring is nearly straight,
# so NMER's error decreases.
# The errors of `Noise` and `NaiveMixup` do not decrease with more data.

# %%
sizes = [100, 300, 1000, 3000]
figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), sharex=True)
for name, (recipe, color) in list(METHODS.items())[1:]:
    found = np.array([[part.mean() for part in errors(drawn(recipe, rows))] for rows in sizes])
    for panel, values in zip(panels, found.T, strict=True):
        panel.loglog(sizes, values, "o-", color=color)
        panel.annotate(name, (sizes[-1], values[-1]), xytext=(6, -3), textcoords="offset points", color=color)
for panel, title in zip(panels, ("off the ring", "off the simulator's next state"), strict=True):
    panel.set(title=title, xlabel="stored transitions", ylabel="mean error", xlim=(80, 9000))
show(figure, "nmer_errors")

# %% [markdown]
# *Left: mean distance of states from the ring.
# Right: mean distance of next states from the simulator's next states.
# All axes are logarithmic.*
#
# The number of neighbors k is a trade-off: with k = 1 the partner is nearest but always the same,
# and with many neighbors the distant ones have larger errors.
# The paper uses `k = 10`.

# %%
ks = [1, 3, 10, 30, 100]
figure, panel = plt.subplots(figsize=(5, 3.4))
found = [errors(drawn(NMER, 1000, k=k))[1].mean() for k in ks]
panel.loglog(ks, found, "o-", color=BLUE)
naive = errors(drawn(NaiveMixup, 1000))[1].mean()
panel.axhline(naive, color=ORANGE, linestyle="--")
panel.annotate("NaiveMixup", (1, naive), xytext=(0, -12), textcoords="offset points", color=ORANGE)
panel.set(title="1,000 stored transitions", xlabel="neighbors k", ylabel="mean error of the next state")
show(figure, "nmer_k")

# %% [markdown]
# *NMER's error increases with k.
# Dashed line: the error of blends of any two rows.
# Both axes are logarithmic.*
#
# **The answer.** Blends of neighbors are nearly real
# if the dynamics are smooth and the buffer is dense, and they improve as the buffer fills.
# Blends of arbitrary rows are not realistic.
# On real tasks, `custom_training.py --on_manifold_rows 32` computes this error
# with MuJoCo during training, and `interreplay report` plots it.

# %%
one = errors(drawn(NMER, 3000))[1].mean()
other = errors(drawn(NaiveMixup, 3000))[1].mean()
print(f"with 3,000 transitions NMER's outcomes are {other / one:.0f} times nearer to the simulator's than mixup's")
assert other > 10 * one
