"""Neighbourhoods: what an anchor may be mixed with."""

from interreplay.neighborhood.alone import Alone
from interreplay.neighborhood.anyone import Anyone
from interreplay.neighborhood.base import Neighborhood
from interreplay.neighborhood.future import Future
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.successor import Successor

__all__ = ["KNN", "Alone", "Anyone", "Future", "Neighborhood", "Successor"]
