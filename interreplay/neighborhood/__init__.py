"""Neighbourhoods: what an anchor may be mixed with."""

from interreplay.neighborhood.alone import Alone
from interreplay.neighborhood.base import Neighborhood
from interreplay.neighborhood.knn import KNN

__all__ = ["KNN", "Alone", "Neighborhood"]
