"""The rows that a batch is made of: anchors and their neighbors, read together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood import Neighborhood
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.synthesis import Synthesizer
from interreplay.transitions import Transitions


def gather(
    storage: Storage,
    view: ReadView,
    neighborhood: Neighborhood,
    synthesizer: Synthesizer,
    slots: Tensor,
    rng: np.random.Generator,
) -> tuple[Transitions, Transitions, Tensor, Tensor | None]:
    """Return anchors ``(n, ...)``, neighbors ``(n, k, ...)``, slots of the first of these ``(n,)``, who has none.

    The slot is −1 where a row has none, −2 where it was made of several; the last is None where all have one.
    """
    if not synthesizer.uses_neighbors:
        anchors, none = view.read(storage, slots), torch.full_like(slots, -1)
        return anchors, anchors, none, none < 0
    found = neighborhood.neighbor_slots(storage, slots, rng)
    if found is None:
        neighbors, found = neighborhood.gather(storage, slots, rng)
        return view.read(storage, slots), neighbors, found[:, 0], found[:, 0] == -1
    found = synthesizer.arrange(storage, slots, found)
    if found.numpy(force=True).min() >= 0:
        return *view.read_with_neighbors(storage, slots, found), found[:, 0], None
    # A row without a neighbor stands beside itself.
    filled = torch.where(found >= 0, found, slots.unsqueeze(1))
    return *view.read_with_neighbors(storage, slots, filled), found[:, 0], found[:, 0] < 0
