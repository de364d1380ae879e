"""Checks of the values that users' parts return to the buffer: types, shapes, dtypes and ranges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.environments.own_modules import is_users_class
from interreplay.errors import PartError
from interreplay.neighborhood import NO_NEIGHBOR, SYNTHETIC, Neighbors
from interreplay.part import Part
from interreplay.selection import Draw
from interreplay.synthesis import Synthesized
from interreplay.transitions import Transitions

CHECKED_DRAWS = 100
"""Number of draws of a user's part that are checked; later draws are not, to save time."""


def has_own_code(part: Part) -> bool:
    """Return whether a part, or a part that it contains, is defined outside this package."""
    found = [part]
    for each in found:
        contained = [*each.inner_parts().values(), *vars(each).values()]
        found += [value for value in contained if isinstance(value, Part) and value not in found]
    return any(is_users_class(type(each)) for each in found)


def check_draw(part: Part, draw: Any, size: int, stored: int) -> None:
    """Check the result of a selector."""
    if not isinstance(draw, Draw):
        raise PartError(f"{_name(part)} returned a {type(draw).__name__} from draw; expected a Draw")
    _check(part, "slots", draw.slots, (size,), dtype=torch.int64)
    _check_range(part, "slots", draw.slots, low=0, high=stored - 1)
    _check(part, "probabilities", draw.probabilities, (size,))
    _check_range(part, "probabilities", draw.probabilities, low=0.0, high=1.0)
    for name in ("weights", "actor_weights", "targets"):
        column = getattr(draw, name)
        if column is not None:
            _check(part, name, column, (size,))


def check_weights(part: Part, weights: Any, size: int) -> None:
    """Check the importance weights that a selector computed for `size` rows."""
    _check(part, "weights", weights, (size,))
    _check_range(part, "weights", weights, low=0.0, high=float("inf"))


def check_neighbors(part: Part, found: Neighbors, slots: Tensor, stored: int) -> None:
    """Check the result of a neighborhood."""
    given = found.slots
    k = given.shape[1] if isinstance(given, Tensor) and given.ndim == 2 else "k"
    _check(part, "neighbors' slots", given, (len(slots), k), dtype=torch.int64)
    least = SYNTHETIC if found.rows is not None else NO_NEIGHBOR
    _check_range(part, "neighbors' slots", given, low=least, high=stored - 1)
    if bool((given == slots.unsqueeze(1)).any()):
        raise PartError(f"{_name(part)} returned an anchor as its own neighbor; expected another row, or {NO_NEIGHBOR}")
    if found.rows is not None:
        for name, column in found.rows.columns().items():
            _check(part, f"neighbors' {name}", column, (len(slots), k, *column.shape[2:]), dtype=column.dtype)


def check_synthesized(part: Part, made: Synthesized, anchors: Transitions) -> None:
    """Check the result of a synthesizer."""
    size = len(anchors)
    if not isinstance(made.rows, Transitions):
        raise PartError(f"{_name(part)} returned rows of type {type(made.rows).__name__}; expected Transitions")
    columns = made.rows.columns()
    for name, column in anchors.columns().items():
        if name == "discounts" and name not in columns:
            continue  # the buffer computes them
        _check(part, name, columns.get(name), tuple(column.shape), dtype=column.dtype)
    for name, column in columns.items():
        if column.is_floating_point() and not bool(torch.isfinite(column).all()):
            raise PartError(f"{_name(part)} returned {name} with non-finite values; expected finite ones")
    if made.mix is not None:
        _check(part, "mix", made.mix, (size,))
        _check_range(part, "mix", made.mix, low=0.0, high=1.0)
    if made.variances is not None:
        _check(part, "variances", made.variances, (size, *made.variances.shape[1:]))
        _check_range(part, "variances", made.variances, low=0.0, high=float("inf"))
    if made.row_weights is not None:
        _check(part, "row_weights", made.row_weights, (size,))
        _check_range(part, "row_weights", made.row_weights, low=0.0, high=float("inf"))


def _check(part: Part, what: str, given: Any, shape: tuple[int | str, ...], dtype: torch.dtype | None = None) -> None:
    """Check the type, shape and dtype of a column; without `dtype`, any float dtype is accepted."""
    size = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
    expected = f"expected a tensor of shape ({size}) of {dtype or 'a float dtype'}"
    if not isinstance(given, Tensor):
        raise PartError(f"{_name(part)} returned {what} of type {type(given).__name__}; {expected}")
    right_dtype = given.is_floating_point() if dtype is None else given.dtype is dtype
    if tuple(given.shape) != shape or not right_dtype:
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
