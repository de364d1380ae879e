"""Neighbourhoods: what an anchor may be mixed with."""

from interreplay.neighborhood.alone import Alone
from interreplay.neighborhood.anyone import Anyone
from interreplay.neighborhood.base import NO_NEIGHBOR, SYNTHETIC, Neighborhood, Neighbors
from interreplay.neighborhood.cluster import ClusterCenter, ClusterMember
from interreplay.neighborhood.future import Future
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.successor import Successor

__all__ = [
    "KNN",
    "NO_NEIGHBOR",
    "SYNTHETIC",
    "Alone",
    "Anyone",
    "ClusterCenter",
    "ClusterMember",
    "Future",
    "Neighborhood",
    "Neighbors",
    "Successor",
]
