"""Event tables. Kompella et al. 2023, Event tables for efficient experience replay, TMLR, arXiv:2211.00576."""

from collections.abc import Callable, Sequence

from torch import Tensor

from interreplay import ReplayBuffer, Transitions
from interreplay.selection import EventTables as EventTablesSelector


class EventTables(ReplayBuffer):
    """Draws fixed shares of each batch from the steps that led to events, and the rest from all rows.

    The step of an event and the `history` steps before it in the episode join the event's table. The cost is 8 bytes
    per row and table, and a check of every new row. It helps if important events are rare and can be named, such as a
    goal, a fall or a doorway. Several events along the way work better than one with a long history.

    Source: Kompella et al. 2023, Event tables for efficient experience replay, TMLR, arXiv:2211.00576.

    Args:
        events: ``"reward > 0"`` with any comparison and number, ``"terminated"``, ``"truncated"``, ``"success"`` (from
            the environment's infos), or callables that map rows ``(n, ...)`` to bool ``(n,)``.
        shares: Share of each event's table; None for equal shares.
        default_share: Share drawn from all rows if `shares` is None; use more than .5 for uncertain events.
        history: Number of steps before an event.

    Examples:
        >>> from interreplay.diagnostics.random_rows import Episodes
        >>> from replay_buffers import EventTables
        >>> buffer = EventTables(capacity=1_000, events=["terminated"], default_share=0.5, history=0, seed=0)
        >>> slots = buffer.add(Episodes(ends=0.1).transitions(500))  # a tenth of the rows terminate
        >>> sample = buffer.sample(64)
        >>> bool(sample.transitions.terminated.sum() >= 32)  # at least half of the batch
        True
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
