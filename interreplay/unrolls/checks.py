"""What a mix of unrolls refuses."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from interreplay.errors import NonFiniteError, UsageError
from interreplay.selection.shares import Share
from interreplay.storage.columns import all_finite
from interreplay.unrolls.source import UnrollSource
from interreplay.unrolls.unrolls import Unrolls


def check_finite(unrolls: Unrolls) -> None:
    """Raise NonFiniteError for the first NaN or infinity among the columns."""
    for name, column in unrolls.columns().items():
        if column.is_floating_point() and not all_finite(column):
            place = (~torch.isfinite(column)).nonzero()[0].tolist()
            at = f"entry {tuple(place)} of the added unrolls"
            raise NonFiniteError(name, place[0], float(column[tuple(place)]), at)


def check_queue(sources: Mapping[str, UnrollSource], shares: Mapping[str, Share]) -> None:
    """Raise UsageError when not exactly one of the sources is a queue, or when it has no share at some time."""
    queues = [name for name, source in sources.items() if source.fresh]
    if not queues:
        raise UsageError(
            f"a mix of {', '.join(sources) or 'nothing'} has no fresh unrolls; expected a queue with a share above 0, "
            "as replay alone does not learn"
        )
    if len(queues) > 1:
        raise UsageError(
            f"a mix has {len(queues)} queues, and each fresh unroll is to be used once; expected one queue"
        )
    share = shares[queues[0]]
    if not all(end > 0 for end in ([share] if isinstance(share, int | float) else share)):
        raise UsageError(f"the share of {queues[0]} is {share}; expected above 0, as replay alone does not learn")
