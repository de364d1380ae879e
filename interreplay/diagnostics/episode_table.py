"""One row per episode: return, length, TD errors, correlated pairs and Q-values of the updates during the episode."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.buffer.sample import Sample
from interreplay.diagnostics.batch_statistics import ERRORS, describe_errors
from interreplay.diagnostics.correlation import count_correlated
from interreplay.experience.source import RowSource
from interreplay.transitions import Transitions

EPISODE_RETURN = "episode_return"
"""Extra column of new rows ``(n,)``: the return of the episode that ends with the row, NaN for other rows."""
EPISODE_LENGTH = "episode_length"
"""Extra column of new rows ``(n,)``: the steps of the row's episode up to the row."""
PAIRS = ("correlation_count", "correlation_count_expected")
Q_VALUE = "q_mean"
COLUMNS = ("episode", "env_steps", "return", "length", "updates", *ERRORS, *PAIRS, Q_VALUE)
"""Columns of the table."""
Q_EVERY = 25
"""Interval, in episodes, between rows with Q-values."""
PAIRS_EVERY = 5
"""Interval, in updates, between counts of pairs; a count takes longer than all other statistics together."""
REFERENCE_ROWS = 256
"""Number of uniformly drawn rows from which states are standardized."""


class EpisodeTable:
    """Records a row per finished episode.

    An episode's updates are those after the last call of `add` before its first row, up to its last row. Each statistic
    is computed per batch and averaged over these updates: the mean, median, maximum and standard deviation of |δ|, the
    correlated pairs of rows as in `count_correlated` (every 5th update), and the mean Q-value (every 25th episode), if
    ``q_mean`` is one of the metrics of updates. Nothing is drawn from the buffer's generator.

    `rows` are the episodes that were not taken yet, each with `COLUMNS`; missing values are None. `finished` is the
    number of all finished episodes.
    """

    def __init__(self, metrics: tuple[str, ...]):
        self.rows: list[dict[str, Any]] = []
        self._q_index: int | None = None
        if Q_VALUE in metrics:
            self._q_index = metrics.index(Q_VALUE)
        self._rng = np.random.default_rng(0)
        self.finished = 0
        # The numbers of updates and of updates with pairs, then sums over the updates.
        self._totals = np.zeros(2 + len(ERRORS) + 1 + len(PAIRS))
        self._before = self._totals.copy()
        self._begun: dict[int, np.ndarray] = {}

    def observe(self, source: RowSource, sample: Sample, td_errors: Tensor, metrics: Tensor) -> None:
        """Process an update with TD errors ``(n,)``; pairs are counted in the first buffer with rows in the batch."""
        found = describe_errors(td_errors)
        q_value = found[0].new_full((), math.nan)
        if self._q_index is not None:
            q_value = metrics[self._q_index].to(q_value)
        pairs = (0.0, 0.0)
        counted = self._totals[0] % PAIRS_EVERY == 0
        if counted:
            _, buffer, rows, _ = next(iter(source.split_by_buffer(sample, td_errors)))
            uniform = torch.from_numpy(self._rng.integers(0, len(buffer), REFERENCE_ROWS))
            pairs = count_correlated(buffer.storage, rows.slots.to(uniform.device), uniform)
        self._totals += [1.0, counted, *torch.stack([*found, q_value]).tolist(), *pairs]

    def add(self, rows: Transitions, env_steps: int) -> None:
        """Process new rows in order of time; `env_steps` are the env steps of the run including them."""
        assert rows.episode is not None
        ids = rows.episode.tolist()
        for episode in ids:
            self._begun.setdefault(episode, self._before)
        returns = rows.extras[EPISODE_RETURN]
        for i in torch.nonzero(~returns.isnan()).flatten().tolist():
            row = self._row(self._begun.pop(ids[i]))
            row["env_steps"] = env_steps - len(rows) + i + 1
            row["return"] = float(returns[i])
            row["length"] = int(rows.extras[EPISODE_LENGTH][i])
            self.rows.append(row)
        self._before = self._totals.copy()

    def _row(self, begun: np.ndarray) -> dict[str, Any]:
        """Return the columns about the updates since `begun`."""
        self.finished += 1
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row["episode"] = self.finished
        updates, counted, *sums = (self._totals - begun).tolist()
        row["updates"] = int(updates)
        for name, total in zip((*ERRORS, Q_VALUE, *PAIRS), sums, strict=True):
            count = updates
            if name in PAIRS:
                count = counted
            if count and not math.isnan(total):
                row[name] = total / count
        if self.finished % Q_EVERY:
            row[Q_VALUE] = None
        return row

    def discard(self, episodes: Iterable[int]) -> None:
        """Drop running episodes that will not be continued."""
        for episode in episodes:
            self._begun.pop(episode, None)

    def take(self) -> list[dict[str, Any]]:
        """Return the episodes that finished since the last call."""
        rows = self.rows
        self.rows = []
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        return {
            "rows": copy.deepcopy(self.rows),
            "rng": self._rng.bit_generator.state,
            "finished": self.finished,
            "totals": self._totals.copy(),
            "before": self._before.copy(),
            "running": np.array(list(self._begun), dtype=np.int64),
            "begun": np.array(list(self._begun.values())).reshape(-1, len(self._totals)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self.rows = copy.deepcopy(list(state["rows"]))
        self._rng.bit_generator.state = state["rng"]
        self.finished = int(state["finished"])
        self._totals = np.array(state["totals"])
        self._before = np.array(state["before"])
        self._begun = dict(zip(np.array(state["running"]).tolist(), np.array(state["begun"]), strict=True))
