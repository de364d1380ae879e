"""Checks of what a user's parts return to the buffer: types, shapes, dtypes and ranges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.errors import PartError
from interreplay.neighborhood import NO_NEIGHBOR, SYNTHETIC, Neighbors
from interreplay.part import Part
from interreplay.selection.base import Drawn
from interreplay.synthesis import Synthesized
from interreplay.transitions import Transitions

CHECKED_DRAWS = 100
"""Draws of a buffer with a user's part that are checked; later ones are not, to save time."""


def has_own_code(part: Part) -> bool:
    """Return whether a part, or one that it is made of, is not of this package."""
    within = [value for value in vars(part).values() if isinstance(value, Part)]
    return not _is_ours(part) or any(not _is_ours(one) for one in within)


def _is_ours(part: Part) -> bool:
    package = type(part).__module__.partition(".")[0]
    return package in ("interreplay", "replay_buffers") or package.startswith("_interreplay_")


def check_drawn(part: Part, drawn: Any, size: int, stored: int) -> None:
    """Check what a selector drew.

    Args:
        part: The selector.
        drawn: Its answer.
        size: Rows that were asked for, n.
        stored: Rows that are stored.

    Raises:
        PartError: The answer is not what the contract states.
    """
    if not isinstance(drawn, Drawn):
        raise PartError(f"{_name(part)} returned a {type(drawn).__name__} from draw; expected a Drawn")
    _check(part, "slots", drawn.slots, (size,), integers=True)
    _check_range(part, "slots", drawn.slots, 0, stored - 1)
    _check(part, "probabilities", drawn.probabilities, (size,))
    _check_range(part, "probabilities", drawn.probabilities, 0.0, 1.0)
    for name in ("weights", "actor_weights", "targets"):
        if (column := getattr(drawn, name)) is not None:
            _check(part, name, column, (size,))


def check_neighbors(part: Part, found: Neighbors, slots: Tensor, stored: int) -> None:
    """Check what a neighborhood gathered.

    Args:
        part: The neighborhood.
        found: Its answer.
        slots: Of the anchors ``(n,)``.
        stored: Rows that are stored.

    Raises:
        PartError: The answer is not what the contract states.
    """
    given = found.slots
    k = given.shape[1] if isinstance(given, Tensor) and given.ndim == 2 else "k"
    _check(part, "neighbors' slots", given, (len(slots), k), integers=True)
    least = SYNTHETIC if found.rows is not None else NO_NEIGHBOR
    _check_range(part, "neighbors' slots", given, least, stored - 1)
    if bool((given == slots.unsqueeze(1)).any()):
        raise PartError(f"{_name(part)} returned an anchor as its own neighbor; expected another row, or {NO_NEIGHBOR}")


def check_made(part: Part, made: Synthesized, anchors: Transitions) -> None:
    """Check what a synthesizer made.

    Args:
        part: The synthesizer.
        made: Its answer.
        anchors: What it was made of, n rows.

    Raises:
        PartError: The answer is not what the contract states.
    """
    size = len(anchors)
    if not isinstance(made.rows, Transitions):
        raise PartError(f"{_name(part)} returned rows of type {type(made.rows).__name__}; expected Transitions")
    columns, expected = made.rows.columns(), anchors.columns()
    for name, column in expected.items():
        if name == "discounts" and name not in columns:
            continue  # the buffer computes them
        _check(part, name, columns.get(name), tuple(column.shape), dtype=column.dtype)
    for name, column in columns.items():
        if column.is_floating_point() and not bool(torch.isfinite(column).all()):
            raise PartError(f"{_name(part)} returned {name} with non-finite values; expected finite ones")
    if made.mix is not None:
        _check(part, "mix", made.mix, (size,))
        _check_range(part, "mix", made.mix, 0.0, 1.0)
    if made.row_weights is not None:
        _check(part, "row_weights", made.row_weights, (size,))
        _check_range(part, "row_weights", made.row_weights, 0.0, float("inf"))


def _check(
    part: Part,
    what: str,
    given: Any,
    shape: tuple[int | str, ...],
    integers: bool = False,
    dtype: torch.dtype | None = None,
) -> None:
    """Check the type, shape and dtype of a column: `dtype` if it is given, else int64 or any float."""
    words = str(dtype) if dtype is not None else "torch.int64" if integers else "a float dtype"
    expected = f"expected a tensor of shape ({', '.join(map(str, shape))}{',' * (len(shape) == 1)}) of {words}"
    if not isinstance(given, Tensor):
        raise PartError(f"{_name(part)} returned {what} of type {type(given).__name__}; {expected}")
    if dtype is not None:
        right = given.dtype is dtype
    else:
        right = given.dtype is torch.int64 if integers else given.is_floating_point()
    if tuple(given.shape) != shape or not right:
        raise PartError(f"{_name(part)} returned {what} of shape {tuple(given.shape)} of {given.dtype}; {expected}")


def _check_range(part: Part, what: str, given: Tensor, low: float, high: float) -> None:
    """Check that all values are at least `low` and at most `high`, and none is NaN."""
    tolerance = 1e-6 if given.is_floating_point() else 0
    inside = (given >= low) & (given <= high + tolerance)
    if not bool(inside.all()):
        wrong = given[~inside].flatten()[0].item()
        raise PartError(f"{_name(part)} returned {what} with the value {wrong}; expected {low} to {high}")


def _name(part: Part) -> str:
    return type(part).__name__
