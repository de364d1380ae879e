"""Elite selection: rows that the current policy might have produced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.part import Context
from interreplay.selection.base import Stored
from interreplay.selection.candidates import FromCandidates, HowFar, ascending, flat, observations
from interreplay.selection.distance import named
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation, as_tensor

Policy = Callable[[Observation], Tensor]
"""Observations ``(n, ...)`` to what the policy gives for them ``(n, ...)``."""
BEHAVIOR = "extras.behavior"
DISTANCES = ("ln", "cosine", "kl")


class Elite(FromCandidates):
    """Of ⌊λn⌋ candidates n, by how far the behavior policy was from the current one, and by how often replayed.

    Off-policyness of a row is the distance between what the behavior policy gave, the stored column
    ``extras["behavior"]`` or else the action, and what the current policy gives for the stored observation.
    Candidates drawn twice count once; they are ranked by it, nearest first, equal ones as drawn. Strategies:

    1. the n nearest;
    2. n evenly spaced over the ranking, the one at ⌊k·u/n⌋ of u, k = 0 … n − 1;
    3. the n least replayed, of equally often replayed ones the nearest;
    4. the ranking cut into n parts, of each the least replayed, of equally often replayed ones the nearest.

    With no more candidates than n, all of them in the strategy's order (2 and 4: nearest first), again from the
    start until the batch is full. Without a policy every distance is 0 and a warning says so once: strategy 1 is then
    uniform replay, 3 and 4 go by replays alone.

    The seed platform divides the fall of λ by `alpha`, so that with 2 it stops half-way; here λ is 1 at the end, and a
    larger `alpha` makes it fall later. Its cosine *similarity* is 1 − cos here.

    Args:
        multiplier: λ at the start of the run.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha.
        strategy: 1 to 4.
        distance: ``"ln"``, ``"cosine"``, or ``"kl"`` of Gaussians [mean; log std], which needs the behavior column.
        policy: The current policy, evaluated on the candidates of every batch without gradients; an algorithm sets it
            with `set_policy`.
        norm: p of ``"ln"``.
        how_far: ``(stored, slots) -> off-policyness`` in place of all that: what is stored need not be rows then.

    Raises:
        ValueError: When an argument is out of range.
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
        how_far: HowFar | None = None,
    ):
        super().__init__(multiplier, alpha, how_far)
        if strategy not in (1, 2, 3, 4):
            raise ValueError(f"strategy is {strategy!r}; expected 1, 2, 3 or 4")
        named(distance, norm, *DISTANCES)
        self.strategy, self.distance, self.norm = strategy, distance, float(norm)
        self._policy = policy
        self._warned = False
        self._replays = torch.empty(0, dtype=torch.int32)
        self._places = np.empty(0, np.int32)  # where in the candidates a slot was drawn

    def set_policy(self, policy: Policy | None, gaussian: bool = True) -> None:
        """Measure off-policyness against `policy` from now on; None for no policy.

        Args:
            policy: The policy.
            gaussian: Whether it gives [mean; log std].

        Raises:
            ValueError: When the distance is ``"kl"`` and it does not.
        """
        if self.distance == "kl" and not gaussian:
            raise ValueError('distance is "kl" and the policy is no distribution; expected "ln" or "cosine"')
        self._policy = policy

    def connect(self, context: Context) -> None:
        if context.policy is not None:
            self.set_policy(context.policy, context.policy_is_gaussian)

    # -- replays ----------------------------------------------------------------------------------

    def _counts(self, stored: Stored) -> Tensor:
        if not len(self._replays):
            self._replays = torch.zeros(stored.capacity, dtype=torch.int32)
        self._replays = self._replays.to(stored.device)
        return self._replays

    def observe(self, stored: Stored, slots: Tensor) -> None:
        self._counts(stored)[slots] = 0

    def replays(self, slots: Tensor) -> Tensor:
        """Return how often the rows in `slots` ``(n,)`` were in a batch, int32 ``(n,)``."""
        return self._replays[slots]

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        slots, probabilities = super().select(stored, size, rng)
        counts = self._counts(stored)
        counts.index_add_(0, slots, torch.ones_like(slots, dtype=counts.dtype))
        return slots, probabilities

    # -- ranking ----------------------------------------------------------------------------------

    @torch.no_grad()
    def keep(self, stored: Stored, slots: Tensor, size: int) -> Tensor:
        slots = self._once(slots)
        ranked = slots.index_select(0, ascending(self.distances(stored, slots)))
        order = pick(self._counts(stored).index_select(0, ranked), size, self.strategy)
        return ranked.index_select(0, order)

    def _once(self, slots: Tensor) -> Tensor:
        """Return `slots` ``(m,)`` without what comes again, in their order."""
        if len(self._places) != len(self._replays):
            self._places = np.zeros(len(self._replays), np.int32)
        drawn = slots.numpy(force=True)
        place = np.arange(len(drawn) - 1, -1, -1, dtype=np.int32)
        self._places[drawn[::-1]] = place  # numpy keeps the last of several, which is where each came first
        return slots[torch.from_numpy(self._places[drawn] == place[::-1]).to(slots.device)]

    def measured(self, storage: Storage, slots: Tensor) -> Tensor:
        return self.off_policyness(storage, slots)

    def off_policyness(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return distance ``(n,)`` between the behavior and the current policy at the rows in `slots` ``(n,)``.

        Raises:
            ValueError: When the two are not of one shape, or ``"kl"`` has no behavior column to look at.
        """
        if self._policy is None:
            self._warn()
            return torch.zeros(len(slots), device=slots.device)
        if self.distance == "kl" and BEHAVIOR not in storage.columns:
            raise ValueError(
                'distance is "kl" and extras hold no "behavior"; expected that column, or another distance'
            )
        name = BEHAVIOR if BEHAVIOR in storage.columns else "actions"
        obs, behavior = observations(storage, slots, name)
        assert behavior is not None
        gave, gives = flat(behavior), flat(self._policy(obs))
        if gave.shape != gives.shape:
            raise ValueError(f"the policy gives {tuple(gives.shape)}; expected {tuple(gave.shape)}, as {name} has")
        return named(self.distance, self.norm, *DISTANCES)(gave, gives.to(gave))

    def _warn(self) -> None:
        if not self._warned:
            warnings.warn("Elite has no policy and takes every row as on-policy; see set_policy", stacklevel=2)
        self._warned = True

    # -- state ------------------------------------------------------------------------------------

    def nbytes(self, capacity: int, features: int) -> int:
        return 8 * capacity

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"replays": self._replays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._replays = as_tensor(state["replays"]).clone()


def pick(replays: Tensor, size: int, strategy: int) -> Tensor:
    """Return which of u ranked candidates make the batch.

    Args:
        replays: How often each was replayed ``(u,)``, nearest first.
        size: n.
        strategy: 1 to 4.

    Returns:
        Positions ``(n,)`` in the ranking.
    """
    count, steps = len(replays), torch.arange(size, device=replays.device)
    if strategy == 3:
        return ascending(replays)[steps % count]
    if strategy == 1 or count <= size:
        return steps % count
    if strategy == 2:
        return steps * count // size
    part = (torch.arange(count, device=replays.device) * size + size - 1) // count  # the k-th part starts at ⌊k·u/n⌋
    by_replays = ascending(replays)
    order = by_replays[ascending(part[by_replays])]
    return order[torch.searchsorted(part, steps)]
