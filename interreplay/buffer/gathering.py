"""The rows that a batch is made of: anchors and their neighbors, read together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from interreplay.neighborhood import NO_NEIGHBOR, Neighbors
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions


class Gathered(NamedTuple):
    """What a synthesizer works on.

    Attributes:
        anchors: ``(n, ...)``.
        neighbors: ``(n, k, ...)``; the anchors where there are none for any row.
        partners: Slots ``(n,)`` of the first neighbor of each row.
        alone: Which rows have none, bool ``(n,)``; None where all have one, or nobody asks for any.
    """

    anchors: Transitions
    neighbors: Transitions
    partners: Tensor
    alone: Tensor | None


def read_neighbors(view: ReadView, storage: Storage, slots: Tensor, found: Neighbors) -> Gathered:
    """Return the rows in `slots` ``(n,)`` with their neighbors, of which stored ones are read with them."""
    if not found.slots.shape[1]:
        anchors, none = view.read(storage, slots), torch.full_like(slots, NO_NEIGHBOR)
        gathered = Gathered(anchors, anchors, none, none < 0)
    elif found.rows is not None:
        first = found.slots[:, 0]
        gathered = Gathered(view.read(storage, slots), found.rows, first, first == NO_NEIGHBOR)
    else:
        on_processor, first = found.slots.device.type == "cpu", found.slots[:, 0]
        everybody = on_processor and found.slots.numpy().min() >= 0  # to look elsewhere would be to wait
        others = found.slots if everybody else found.stored_slots(slots)  # a row without one stands beside itself
        both = view.read_with_neighbors(storage, slots, others)
        gathered = Gathered(*both, first, None if everybody else first < 0)
    if not found.extras:
        return gathered
    extras = {**gathered.neighbors.extras, **found.extras}
    return gathered._replace(neighbors=gathered.neighbors.replace(extras=extras))
