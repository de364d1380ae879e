"""Memory of a recurrent network: what it knows of an episode beside the observation of now."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

State = dict[str, Tensor]
"""By name ``(n, cells)``: the output ``h`` and the cell ``c`` of an LSTM."""


class Memory(nn.Module):
    """An LSTM over encoded observations (Hochreiter & Schmidhuber 1997), before the layers of a policy.

    Unrolls hold its state before their first step, as it was when they were made, and every episode begins with zeros
    (as IMPALA has it, Espeholt et al. 2018, arXiv:1802.01561). States that were stored age as weights change: those of
    replayed unrolls more (Kapturowski et al. 2019, R2D2).

    Args:
        inputs: Numbers in an encoded observation.
        cells: Numbers that it gives, and keeps.
    """

    def __init__(self, inputs: int, cells: int):
        super().__init__()
        self.cells = cells
        self.cell = nn.LSTMCell(inputs, cells)

    def begin(self, count: int) -> State:
        """Return the state of so many episodes before their first step."""
        zeros = self.cell.weight_hh.new_zeros(count, self.cells)
        return {"h": zeros, "c": zeros.clone()}

    def step(self, rows: Tensor, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        """Return what it gives for encoded observations ``(n, inputs)``, ``(n, cells)``, and the state after them."""
        h, c = self.cell(rows, (state["h"], state["c"]))
        return h, {"h": h, "c": c}

    def unrolled(self, rows: Tensor, state: Mapping[str, Tensor], live: Tensor) -> Tensor:
        """Return what it gives for T + 1 moments of B environments, ``(T + 1, B, cells)``.

        Args:
            rows: Encoded observations ``(T + 1, B, inputs)``.
            state: Before the first of them, ``(B, cells)`` by name.
            live: Whether steps were made ``(T, B)``; behind a row that is not live an episode begins.
        """
        found, (h, c) = [], (state["h"], state["c"])
        going_on = live.to(rows.dtype).unsqueeze(-1)
        for t, row in enumerate(rows):
            h, c = self.cell(row, (h, c))
            found.append(h)
            if t < len(live):
                h, c = h * going_on[t], c * going_on[t]
        return torch.stack(found)
