"""Random transitions, states and parametrizations for tests."""

import contextlib
import errno
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from interreplay import Transitions
from interreplay.diagnostics.contract import identical, require_same_samples
from interreplay.diagnostics.random_rows import Episodes, Row, make, stack
from interreplay.transitions import observation_parts

__all__ = ["HALF_CHEETAH", "KINDS", "Episodes", "Row", "by_turns", "feed", "full_disk", "identical", "make"]
__all__ += ["require_same_samples", "rows_with", "stack", "stacked"]
HALF_CHEETAH = {"obs_shape": (17,), "action_shape": (6,)}
KINDS = {
    "plain": {},
    "dict": {"obs_shape": {"observation": (3,), "desired_goal": (2,)}},
    "float64": {"obs_dtype": np.float64, "action_dtype": np.float64},
    "2-D": {"obs_shape": (2, 3), "action_shape": (2, 2)},
    "scalar": {"obs_shape": (), "action_shape": ()},
}
"""Shapes and dtypes of rows, as arguments of `make` and `Episodes`."""


def by_turns(*lists: Iterable[Any]) -> list[Any]:
    """Return all pairs of the first two lists with alternating entries of the others, for `parametrize`."""
    first, second, *others = map(list, lists)
    found = []
    for (i, one), (j, other) in itertools.product(enumerate(first), enumerate(second)):
        found.append((one, other, *(entries[(i + j) % len(entries)] for entries in others)))
    return found


def row_vectors(rows: Transitions) -> np.ndarray:
    """Return [s; a; r; s'] of each row, float64 ``(n, D)``."""
    parts = [*observation_parts(rows.obs).values(), rows.actions, rows.rewards]
    parts += observation_parts(rows.next_obs).values()
    return np.concatenate([part.double().numpy().reshape(len(rows), -1) for part in parts], axis=1)


def rows_with(**columns: Any) -> Transitions:
    """Return rows with some columns; others are zeros, except that next observations equal observations."""
    n = len(next(iter(columns.values())))
    zeros = {name: np.zeros((n, 1), np.float32) for name in ("obs", "actions")} | {"rewards": np.zeros(n, np.float32)}
    given = zeros | {name: np.zeros(n, bool) for name in ("terminated", "truncated")} | columns
    return Transitions(**{"next_obs": given["obs"]} | given)


def feed(part: Any, storage: Any, rows: Transitions) -> torch.Tensor:
    """Store rows, call `evict` and `observe` of a part as a buffer does, and return their slots."""
    part.evict(storage, storage.next_replaced(len(rows)))
    slots = storage.add(rows)
    part.observe(storage, slots)
    return slots


def stacked(observations: list[Any]) -> Any:
    """Stack observations into a batch: each part gets a leading dimension."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: stacked([one[name] for one in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(stacked([one[i] for one in observations]) for i in range(len(first)))
    return np.stack(observations)


def full_disk(*arguments: Any, **options: Any) -> None:
    """Fail as a write on a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device")


def same_state(one: Any, other: Any) -> None:
    """Assert that two states, trees of arrays and plain values, are identical."""
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
    """Fill uninitialized memory of NumPy and PyTorch with a byte."""
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
