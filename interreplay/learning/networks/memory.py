"""Memory of a recurrent policy."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

State = dict[str, Tensor]
"""Output ``h`` and cell ``c`` of an LSTM, each ``(n, cells)``."""


class Memory(nn.Module):
    """An LSTM over encoded observations (Hochreiter & Schmidhuber 1997), before the layers of a policy.

    Unrolls store its state before their first step, and every episode starts with zeros (Espeholt et al. 2018,
    arXiv:1802.01561). Stored states become stale as weights change, especially those of replayed unrolls (Kapturowski
    et al. 2019, R2D2).
    """

    def __init__(self, inputs: int, cells: int):
        super().__init__()
        self.cells = cells
        self.cell = nn.LSTMCell(inputs, cells)

    def begin(self, count: int) -> State:
        """Return the state of `count` episodes before their first step."""
        zeros = self.cell.weight_hh.new_zeros(count, self.cells)
        return {"h": zeros, "c": zeros.clone()}

    def step(self, rows: Tensor, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        """Return outputs ``(n, cells)`` for encoded observations ``(n, inputs)``, and the next state."""
        h, c = self.cell(rows, (state["h"], state["c"]))
        return h, {"h": h, "c": c}

    def unroll(self, rows: Tensor, state: Mapping[str, Tensor], live: Tensor) -> Tensor:
        """Return outputs ``(T + 1, B, cells)`` for T + 1 observations of B environments.

        Args:
            rows: Encoded observations ``(T + 1, B, inputs)``.
            state: State before the first observation, ``(B, cells)`` by name.
            live: Whether steps belong to an episode ``(T, B)``; a new episode starts after a step that does not.
        """
        found = []
        h = state["h"]
        c = state["c"]
        continues = live.to(rows.dtype).unsqueeze(-1)
        for t, row in enumerate(rows):
            h, c = self.cell(row, (h, c))
            found.append(h)
            if t < len(live):
                h = h * continues[t]
                c = c * continues[t]
        return torch.stack(found)
