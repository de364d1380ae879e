"""Random transitions: rows of several episodes, in the order in which vectorized environments would give them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
import torch

from interreplay import Transitions
from interreplay.diagnostics.contract import identical, same_sample
from interreplay.diagnostics.random_rows import Episodes, Row, make, stack

__all__ = ["HALF_CHEETAH", "Episodes", "Row", "by_turns", "feed", "identical", "make", "same_sample", "stack"]
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


def feed(part: Any, storage: Any, rows: Transitions) -> torch.Tensor:
    """Store rows and let a part know of it before and after, as a buffer does; returns their slots."""
    part.evict(storage, storage.next_replaced(len(rows)))
    slots = storage.add(rows)
    part.observe(storage, slots)
    return slots
