"""Elite selection: rows that the current policy might have produced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import PartError
from interreplay.part import Context
from interreplay.selection.base import SlotStore
from interreplay.selection.candidates import (
    CandidateDistance,
    CandidateSelector,
    flat_floats,
    read_observations,
    stable_order,
)
from interreplay.selection.distance import distance_by_name
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation, as_tensor

Policy = Callable[[Observation], Tensor]
"""Maps observations ``(n, ...)`` to the outputs of the policy ``(n, ...)``."""
BEHAVIOR = "extras.behavior"


class Elite(CandidateSelector):
    """Keeps n of ⌊λn⌋ candidates by the off-policyness of their actions and by how often they were replayed.

    The off-policyness of a row is the distance between the output of the behavior policy (the stored column
    ``extras["behavior"]``, or else the action) and the output of the current policy for the stored observation.
    Candidates that are drawn twice count once. They are ranked by off-policyness, nearest first; ties stay in the order
    of the draw. Strategies:

    1. the n nearest;
    2. n evenly spaced ranks of u: the candidates at ⌊k·u/n⌋, k = 0 … n − 1;
    3. the n least replayed; ties go to the nearest;
    4. the least replayed of each of n equal parts of the ranking; ties go to the nearest.

    If there are at most n candidates, all are used in the order of the strategy (2 and 4: nearest first) and repeated
    until the batch is full. Without a policy all distances are 0 and a warning is issued once: strategy 1 is then
    uniform replay, and strategies 3 and 4 use replay counts only.

    Unlike the original platform, which divides the decrease of λ by `alpha` and stops half-way with `alpha` 2, λ is 1
    at the end of the run. The original's cosine *similarity* is 1 − cos here.

    Args:
        multiplier: λ at the start of the run.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha.
        strategy: 1 to 4.
        distance: ``"ln"``, ``"cosine"``, or ``"kl"`` of Gaussians [mean; log std], which requires the behavior column.
        policy: The current policy, evaluated on the candidates of each batch without gradients. Algorithms set it by
            `connect`.
        norm: p of ``"ln"``.
        distance_fn: ``(stored, slots) -> off-policyness``, replacing the above. With it, any store can be used.

    Raises:
        ValueError: If an argument is out of range.
    """

    columns_wanted = frozenset({"behavior"})

    def __init__(
        self,
        multiplier: float = 6.0,
        alpha: float = 2.0,
        strategy: int = 3,
        distance: str = "ln",
        policy: Policy | None = None,
        norm: float = 2.0,
        distance_fn: CandidateDistance | None = None,
    ):
        super().__init__(multiplier, alpha, distance_fn)
        if strategy not in (1, 2, 3, 4):
            raise ValueError(f"strategy is {strategy!r}; expected 1, 2, 3 or 4")
        self.strategy = strategy
        self.distance = distance
        self._policy_distance = distance_by_name(distance, norm, "ln", "cosine", "kl")
        self._policy = policy
        self._warned = False
        self._replays = torch.empty(0, dtype=torch.int32)
        self._positions = np.empty(0, np.int32)  # position of each slot among the candidates, to remove duplicates

    def connect(self, context: Context) -> None:
        """Measure off-policyness against the policy of `context`; raise a ValueError if ``"kl"`` cannot compare it."""
        if context.policy is None:
            return
        if self.distance == "kl" and not context.policy_is_gaussian:
            raise ValueError('distance is "kl" and the policy is not a distribution; expected "ln" or "cosine"')
        self._policy = context.on_rows(context.policy)

    # -- replay counts ----------------------------------------------------------------------------

    def observe(self, stored: SlotStore, slots: Tensor) -> None:
        if not len(self._replays):
            self._replays = torch.zeros(stored.capacity, dtype=torch.int32)
        self._replays[slots] = 0

    def replays(self, slots: Tensor) -> Tensor:
        """Return how often the rows in `slots` ``(n,)`` were drawn, int32 ``(n,)``."""
        return self._replays[slots]

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        slots, probabilities = super().select(stored, size, rng)
        self._replays.index_add_(0, slots, torch.ones_like(slots, dtype=torch.int32))
        return slots, probabilities

    # -- ranking ----------------------------------------------------------------------------------

    @torch.no_grad()
    def keep(self, stored: SlotStore, slots: Tensor, size: int) -> Tensor:
        if len(self._positions) != stored.capacity:
            self._positions = np.zeros(stored.capacity, np.int32)
        drawn = slots.numpy()
        positions = np.arange(len(drawn) - 1, -1, -1, dtype=np.int32)
        # numpy keeps the last of several values: the first occurrence. This is much faster than a sort.
        self._positions[drawn[::-1]] = positions
        slots = slots[torch.from_numpy(self._positions[drawn] == positions[::-1])]
        ranked = slots.index_select(0, stable_order(self.distances(stored, slots)))
        return ranked.index_select(0, choose_ranks(self._replays.index_select(0, ranked), size, self.strategy))

    def row_distances(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return the off-policyness ``(n,)`` of the rows in `slots` ``(n,)``.

        Raises:
            ValueError: If the shapes of behavior and policy differ, or ``"kl"`` has no behavior column.
        """
        if self._policy is None:
            if not self._warned:
                warnings.warn(
                    "Elite has no policy and treats every row as on-policy; expected a connected algorithm or the "
                    "argument policy",
                    stacklevel=2,
                )
            self._warned = True
            return torch.zeros(len(slots))
        has_behavior = BEHAVIOR in storage.columns
        if self.distance == "kl" and not has_behavior:
            raise ValueError(
                'distance is "kl" and extras hold no "behavior"; expected this column, or another distance'
            )
        name = BEHAVIOR if has_behavior else "actions"
        obs, stored = read_observations(storage, slots, name)
        assert stored is not None
        behavior = flat_floats(stored)
        found = self._policy(obs)
        if not isinstance(found, Tensor):
            raise PartError(f"the policy returned a {type(found).__name__}; expected a tensor {tuple(behavior.shape)}")
        current = flat_floats(found)
        if behavior.shape != current.shape:
            shapes = tuple(current.shape), tuple(behavior.shape)
            raise ValueError(f"the policy returned shape {shapes[0]}; expected {shapes[1]}, the shape of {name}")
        return self._policy_distance(behavior, current.to(behavior))

    # -- state ------------------------------------------------------------------------------------

    def nbytes(self, capacity: int, features: int) -> int:
        return 8 * capacity

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"replays": self._replays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._replays = as_tensor(state["replays"]).clone()


def choose_ranks(replays: Tensor, size: int, strategy: int) -> Tensor:
    """Return the ranks ``(size,)`` to keep of u candidates, given their replay counts ``(u,)`` in order of distance."""
    count = len(replays)
    steps = torch.arange(size)
    if strategy == 3:
        return stable_order(replays)[steps % count]
    if strategy == 1 or count <= size:
        return steps % count
    if strategy == 2:
        return steps * count // size
    part = (torch.arange(count) * size + size - 1) // count  # part k starts at rank ⌊k·u/n⌋
    by_replays = stable_order(replays)
    order = by_replays[stable_order(part[by_replays])]
    return order[torch.searchsorted(part, steps)]
