"""States of clusters as earlier versions saved them."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.neighborhood.clusters.clustering import Clustering
from interreplay.storage.read_views import ReadView


def upgraded(state: dict[str, Any], clustering: Clustering, view: ReadView | None) -> dict[str, Any]:
    """Return a state as `clustering` loads it.

    Earlier ones have copies of the oldest rows, ``oldest``, in place of what is ``gone``, and moments of one view.

    Args:
        state: Of any version.
        clustering: Of the same size.
        view: How the rows were read whose moments an earlier state has; None where that is not known.
    """
    if "oldest" not in state:
        return state
    before = clustering.capacity + int(state["oldest"]["first"])
    refreshed, written = (max(0, int(state[name]) - before) for name in ("refreshed", "written"))
    gone = np.asarray(state["oldest"]["vectors"])[refreshed:written, clustering.z]
    moments: list[dict[str, Any]] = []
    if "sums" in state and view is not None:
        moments = [{"n_step": view.n_step, "gamma": view.gamma, "sums": state["sums"]}]
        moments[0] |= {"mature": state["settled"]} if "settled" in state else {}
    return state | {"gone": gone, "moments": moments}
