"""Event tables. Kompella et al. 2023, Event tables for efficient experience replay, TMLR, arXiv:2211.00576."""

from collections.abc import Callable, Sequence

from torch import Tensor

from interreplay import ReplayBuffer, Transitions
from interreplay.selection import EventTables as EventTablesSelector


class EventTables(ReplayBuffer):
    """Fixed shares of each batch from the steps that led to events, the rest from all rows.

    Where an event happens, its step and the `history` ones before it in the episode join the event's table. Costs 8
    bytes per row and table, and a look at every new row. Helps where what matters is rare and can be named: a goal, a
    fall, a doorway; several events along the way work better than one with a long history.

    Args:
        events: ``"reward > 0"`` with any comparison and number, ``"terminated"``, ``"truncated"``, ``"success"`` (what
            the environment's infos say), or callables of rows ``(n, ...)`` that return bool ``(n,)``.
        shares: Of each event's table; None for equal ones.
        default_share: Drawn from all rows, where `shares` is None; with good events .5, with doubtful ones more.
        history: Steps before an event.
    """

    def __init__(
        self,
        *,
        capacity: int = 1_000_000,
        events: Sequence[str | Callable[[Transitions], Tensor]] = ("reward > 0", "terminated"),
        shares: Sequence[float] | None = None,
        default_share: float = 0.5,
        history: int = 50,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        selector = EventTablesSelector(events, shares, default_share, history)
        super().__init__(capacity, selector, n_step=n_step, gamma=gamma, seed=seed, device=device)
