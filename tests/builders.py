"""Random transitions: rows of several episodes, in the order in which vectorized environments would give them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from interreplay import Transitions

Row = dict[str, Any]
HALF_CHEETAH = {"obs_shape": (17,), "action_shape": (6,)}


def by_turns(*lists: Iterable[Any]) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`: the product of the lists, of which only a part is fast.

    All pairs of the first two lists are; entries of the others come by turns. The rest is marked slow.
    """
    choices = [list(entries) for entries in lists]
    fast = {
        (i, j, *((i + j) % len(entries) for entries in choices[2:]))
        for i in range(len(choices[0]))
        for j in range(len(choices[1]))
    }
    return [
        pytest.param(
            *(entries[i] for entries, i in zip(choices, places, strict=True)),
            marks=[] if places in fast else [pytest.mark.slow],
        )
        for places in itertools.product(*(range(len(entries)) for entries in choices))
    ]


class Episodes:
    """Environments in turn, each with its own running episode.

    Args:
        seed: Of everything.
        envs: How many interleave.
        obs_shape: Of one observation; a dict of such for named parts.
        obs_dtype: Of observations.
        action_shape: Of one action.
        action_dtype: Of actions.
        ends: Probability of termination, and the same again of truncation, at each row.
        gaps: Probability that the next row of an episode does not continue the one before it.
        ids: Whether rows name their episode.
    """

    def __init__(
        self,
        seed: int = 0,
        envs: int = 1,
        obs_shape: Any = (3,),
        obs_dtype: Any = np.float32,
        action_shape: tuple[int, ...] = (2,),
        action_dtype: Any = np.float32,
        ends: float = 0.1,
        gaps: float = 0.0,
        ids: bool = True,
    ):
        self.rng = np.random.default_rng(seed)
        self.obs_shape, self.obs_dtype = obs_shape, np.dtype(obs_dtype)
        self.action_shape, self.action_dtype = action_shape, np.dtype(action_dtype)
        self.ends, self.gaps, self.ids = ends, gaps, ids
        self.next_id = envs
        self.running = [(env, self.observation()) for env in range(envs)]

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        if dtype.kind == "f":
            return self.rng.normal(size=shape).astype(dtype)
        return self.rng.integers(0, 256 if dtype == np.uint8 else 4, shape).astype(dtype)

    def observation(self) -> Any:
        if isinstance(self.obs_shape, dict):
            return {name: self.array(shape, self.obs_dtype) for name, shape in self.obs_shape.items()}
        return self.array(self.obs_shape, self.obs_dtype)

    def row(self, env: int) -> Row:
        """One step of an environment."""
        episode, obs = self.running[env]
        following = self.observation()
        terminated, truncated = bool(self.rng.random() < self.ends), bool(self.rng.random() < self.ends)
        start = self.observation() if terminated or truncated or self.rng.random() < self.gaps else following
        if terminated or truncated:
            episode, self.next_id = self.next_id, self.next_id + 1
        row = {
            "obs": obs,
            "actions": self.array(self.action_shape, self.action_dtype),
            "rewards": np.float32(self.rng.normal()),
            "next_obs": following,
            "terminated": terminated,
            "truncated": truncated,
            "episode": self.running[env][0],
        }
        self.running[env] = (episode, start)
        return row

    def rows(self, n: int) -> list[Row]:
        """`n` rows of randomly chosen environments."""
        return [self.row(int(env)) for env in self.rng.integers(0, len(self.running), n)]

    def transitions(self, n: int) -> Transitions:
        return stack(self.rows(n), self.ids)


def stack(rows: list[Row], ids: bool = True) -> Transitions:
    """Rows as columns; without `ids` their episodes are left out."""

    def column(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: np.stack([v[name] for v in values]) for name in values[0]}
        return np.stack([np.asarray(v) for v in values])

    names = [name for name in rows[0] if ids or name != "episode"]
    return Transitions(**{name: column([row[name] for row in rows]) for name in names})


def make(n: int, **arguments: Any) -> Transitions:
    """`n` random rows."""
    return Episodes(**arguments).transitions(n)


def feed(part: Any, storage: Any, rows: Transitions) -> torch.Tensor:
    """Store rows and let a part know of it before and after, as a buffer does; returns their slots."""
    part.evict(storage, storage.next_replaced(len(rows)))
    slots = storage.add(rows)
    part.observe(storage, slots)
    return slots


def identical(one: Transitions, other: Transitions) -> None:
    """Assert that two transitions have the same columns, bit for bit."""
    mine, theirs = one.columns(), other.columns()
    assert set(mine) == set(theirs)
    for name, column in mine.items():
        assert column.dtype == theirs[name].dtype, name
        assert torch.equal(column, theirs[name]), name


def same_sample(one: Any, other: Any) -> None:
    """Assert that two samples are the same, bit for bit."""
    identical(one.transitions, other.transitions)
    for name in ("slots", "weights", "neighbor_slots", "probabilities"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert (one.mix is None) == (other.mix is None)
    assert one.mix is None or torch.equal(one.mix, other.mix)


def same_state(one: Any, other: Any) -> None:
    """Assert that two states, trees of arrays and plain values, are the same, bit for bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same_state(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            same_state(mine, theirs)
    else:
        assert type(one) is type(other)
        assert np.array_equal(one, other, equal_nan=np.issubdtype(np.asarray(one).dtype, np.floating))


@contextlib.contextmanager
def unwritten_memory_holds(byte: int) -> Iterator[None]:
    """Let every byte of new uninitialized memory of NumPy and PyTorch have this value."""
    numpy_empty = np.empty
    torch_empty = torch.empty
    new_empty = torch.Tensor.new_empty

    def filled(array: Any) -> Any:
        if array.dtype != object:
            array.reshape(-1).view(np.uint8)[:] = byte
        return array

    def filled_tensor(tensor: Any) -> Any:
        tensor.untyped_storage().fill_(byte)
        return tensor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", lambda *args, **options: filled(numpy_empty(*args, **options)))
        patch.setattr(torch, "empty", lambda *args, **options: filled_tensor(torch_empty(*args, **options)))
        patch.setattr(torch.Tensor, "new_empty", lambda *args, **options: filled_tensor(new_empty(*args, **options)))
        yield
