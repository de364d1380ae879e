"""The estimated memory of a buffer compared with its actual memory."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from builders import HALF_CHEETAH, Episodes, make

from interreplay.diagnostics.memory_estimate import estimate
from interreplay.environments.spaces import columns_from_spaces
from replay_buffers import NMER, PER, Uniform

BOX, DISCRETE = gym.spaces.Box, gym.spaces.Discrete
SPACES = {
    "half cheetah": (BOX(-np.inf, np.inf, (17,), np.float64), BOX(-1, 1, (6,), np.float32)),
    "pendulum": (BOX(-1, 1, (3,), np.float32), BOX(-2, 2, (1,), np.float32)),
    "image": (BOX(0, 255, (28, 28), np.uint8), DISCRETE(4)),
    "goal": (
        gym.spaces.Dict({n: BOX(-1, 1, (k,), np.float64) for n, k in (("observation", 10), ("goal", 3))}),
        BOX(-1, 1, (4,)),
    ),
    "grid": (DISCRETE(16), gym.spaces.MultiDiscrete([3, 4])),
    "2-D": (BOX(-1, 1, (4, 3), np.float32), BOX(-1, 1, (2, 2), np.float32)),
}


def filled(kind: type, spaces: tuple, capacity: int):
    """Return a full buffer of rows of an environment with these spaces, in episodes of 250 rows."""
    columns = columns_from_spaces(*spaces)
    shapes = {name[4:]: shape for name, (shape, _) in columns.items() if name.startswith("obs.")}
    dtypes = {name: torch.empty(0, dtype=dtype).numpy().dtype for name, (_, dtype) in columns.items()}
    episodes = Episodes(
        obs_shape=shapes or columns["obs"][0],
        obs_dtype=dtypes["obs" if "obs" in columns else "obs.goal"],
        action_shape=columns["actions"][0],
        action_dtype=dtypes["actions"],
        ends=0.002,
    )
    buffer = kind(capacity=capacity)
    buffer.add(episodes.transitions(capacity))
    assert dict(buffer.storage.columns) == columns
    return buffer


@pytest.mark.slow
def test_uniform():
    for name, spaces in SPACES.items():
        buffer = filled(Uniform, spaces, 3000)
        assert estimate(*spaces, buffer) == pytest.approx(buffer.storage.nbytes, rel=0.1), name


def test_prioritized():
    buffer = filled(PER, SPACES["half cheetah"], 3000)
    taken = buffer.storage.nbytes + array_bytes(buffer.selector)
    assert estimate(*SPACES["half cheetah"], buffer) == pytest.approx(taken, rel=0.1)


def test_neighbors():
    buffer = NMER(capacity=1_000_000)  # allocated at once, so it need not be filled
    buffer.add(make(2, **HALF_CHEETAH))
    taken = buffer.storage.nbytes + array_bytes(buffer.neighborhood)
    assert taken > 300 * buffer.capacity
    assert estimate(*SPACES["half cheetah"], buffer) == pytest.approx(taken, rel=0.1)


def array_bytes(thing: object, seen: set | None = None) -> int:
    """Return the memory of all arrays of a part in bytes."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        return thing.numel() * thing.element_size()
    if isinstance(thing, np.ndarray):
        return thing.nbytes if thing.base is None else 0
    if isinstance(thing, list | tuple):
        return sum(array_bytes(item, seen) for item in thing)
    if isinstance(thing, dict):
        return sum(array_bytes(item, seen) for item in thing.values())
    return array_bytes(vars(thing), seen) if type(thing).__module__.startswith("interreplay") else 0


def test_columns_of_spaces():
    columns = columns_from_spaces(*SPACES["goal"])
    assert columns["obs.observation"] == ((10,), torch.float32) and columns["rewards"] == ((), torch.float32)
    assert columns_from_spaces(*SPACES["image"])["obs"] == ((28, 28), torch.uint8)
    assert columns_from_spaces(*SPACES["image"])["actions"] == ((), torch.int64)
    whole = gym.spaces.Box(-3, 3, (2,), np.int32)
    assert columns_from_spaces(whole, whole)["actions"] == ((2,), torch.float32), "stored in [−1, 1]"
