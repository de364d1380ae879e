"""Small stores of synthetic rows."""

import gymnasium as gym
import numpy as np
import torch

from interreplay import Transitions
from interreplay.experience.store import ExperienceStore, StoreWriter
from interreplay.runs import state_files
from interreplay.transitions import cat
from replay_buffers import Uniform

SPACES = (
    gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
    gym.spaces.Box(-2.0, 2.0, (1,), np.float32),
)


def episodes_of(lengths, seed=0, first=0, ended=True):
    """Rows of episodes one after the other, whose observations continue each other; ids from `first` on."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, length in enumerate(lengths):
        obs = rng.normal(size=(length + 1, 3)).astype(np.float32)
        over = np.arange(1, length + 1) == length
        parts.append(
            {
                "obs": obs[:-1],
                "actions": rng.uniform(-1, 1, (length, 1)).astype(np.float32),
                "rewards": rng.normal(size=length).astype(np.float32),
                "next_obs": obs[1:],
                "terminated": over & ended & (number % 2 == 0),
                "truncated": over & ended & (number % 2 == 1),
                "episode": np.full(length, first + number),
            }
        )
    return Transitions(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def writer_of(folder, most_rows=1_000_000, env="Pendulum-v1", spaces=SPACES, **more):
    return StoreWriter(folder, env, {}, spaces, most_rows, **more)


def fill(folder, rows, step=1, version=0, chunk=1, **more):
    """Write rows into a store, `chunk` at a time, and close it."""
    writer = writer_of(folder, **{"seconds": 3600.0, **more})
    for start in range(0, len(rows), chunk):
        writer.add(rows[start : start + chunk], step + start, version + start)
    writer.close()
    return folder


def intact(folder):
    """Open a store, and check all its rows."""
    store = ExperienceStore(folder)
    store.check()
    return store


def save_buffer(folder, rows, capacity=None):
    """Save the state of a uniform buffer with these rows."""
    buffer = Uniform(capacity=capacity or len(rows))
    buffer.add(rows)
    state_files.save(folder, buffer.state_dict())


def everything(store):
    return cat(list(store.portions()))


def equal(a, b):
    mine, theirs = a.columns(), b.columns()
    names = mine.keys() & theirs.keys() - {"discounts"}
    return len(a) == len(b) and all(torch.equal(mine[name], theirs[name]) for name in names)
