"""Checks of the values that users' parts return to the buffer: types, shapes, dtypes and ranges."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from interreplay.environments.own_modules import is_users_class
from interreplay.errors import PartError
from interreplay.neighborhood import NO_NEIGHBOR, SYNTHETIC, Neighbors
from interreplay.part import Part, check_tensor
from interreplay.selection import Draw
from interreplay.synthesis import Synthesized
from interreplay.transitions import Transitions

CHECKED_DRAWS = 100
"""Number of draws of a user's part that are checked; later draws are not, to save time."""
AT_LEAST_0 = (0.0, math.inf)


def has_own_code(part: Part) -> bool:
    """Return whether a part, or a part that it contains, is defined outside this package."""
    found = [part]
    for each in found:
        contained = [*each.inner_parts().values(), *vars(each).values()]
        found += [value for value in contained if isinstance(value, Part) and value not in found]
    return any(is_users_class(type(each)) for each in found)


def check_draw(part: Part, draw: Any, size: int, stored: int) -> None:
    """Check the result of a selector."""
    source = type(part).__name__
    if not isinstance(draw, Draw):
        raise PartError(f"{source} returned a {type(draw).__name__} from draw; expected a Draw")
    check_tensor(source, "slots", draw.slots, (size,), torch.int64, limits=(0, stored - 1))
    check_tensor(source, "probabilities", draw.probabilities, (size,), limits=(0.0, 1.0))
    for name in ("weights", "actor_weights", "targets"):
        if getattr(draw, name) is not None:
            check_tensor(source, name, getattr(draw, name), (size,))


def check_weights(part: Part, weights: Any, size: int) -> None:
    """Check the importance weights that a selector computed for `size` rows."""
    check_tensor(type(part).__name__, "weights", weights, (size,), limits=AT_LEAST_0)


def check_neighbors(part: Part, found: Neighbors, slots: Tensor, stored: int) -> None:
    """Check the result of a neighborhood."""
    source = type(part).__name__
    given = found.slots
    k = given.shape[1] if isinstance(given, Tensor) and given.ndim == 2 else "k"
    least = SYNTHETIC if found.rows is not None else NO_NEIGHBOR
    check_tensor(source, "neighbors' slots", given, (len(slots), k), torch.int64, limits=(least, stored - 1))
    if bool((given == slots.unsqueeze(1)).any()):
        raise PartError(f"{source} returned an anchor as its own neighbor; expected another row, or {NO_NEIGHBOR}")
    if found.rows is not None:
        for name, column in found.rows.columns().items():
            check_tensor(source, f"neighbors' {name}", column, (len(slots), k, *column.shape[2:]), column.dtype)


def check_synthesized(part: Part, made: Synthesized, anchors: Transitions) -> None:
    """Check the result of a synthesizer."""
    source = type(part).__name__
    size = len(anchors)
    if not isinstance(made.rows, Transitions):
        raise PartError(f"{source} returned rows of type {type(made.rows).__name__}; expected Transitions")
    columns = made.rows.columns()
    for name, column in anchors.columns().items():
        if name != "discounts" or name in columns:  # the buffer computes missing discounts
            check_tensor(source, name, columns.get(name), column.shape, column.dtype)
    for name, column in columns.items():
        if column.is_floating_point() and not bool(torch.isfinite(column).all()):
            raise PartError(f"{source} returned {name} with non-finite values; expected finite ones")
    if made.mix is not None:
        check_tensor(source, "mix", made.mix, (size,), limits=(0.0, 1.0))
    if made.variances is not None:
        check_tensor(source, "variances", made.variances, (size, *made.variances.shape[1:]), limits=AT_LEAST_0)
    if made.row_weights is not None:
        check_tensor(source, "row_weights", made.row_weights, (size,), limits=AT_LEAST_0)
