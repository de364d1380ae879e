"""Neighborhoods: what an anchor may be mixed with."""

from interreplay.neighborhood.alone import NoNeighbors
from interreplay.neighborhood.anyone import RandomNeighbor
from interreplay.neighborhood.base import NO_NEIGHBOR, SYNTHETIC, Neighborhood, Neighbors
from interreplay.neighborhood.cluster import ClusterCenter, ClusterMember
from interreplay.neighborhood.future import HindsightGoals
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.successor import Successor

Alone, Anyone, Future = NoNeighbors, RandomNeighbor, HindsightGoals  # their names before

__all__ = [
    "KNN",
    "NO_NEIGHBOR",
    "SYNTHETIC",
    "Alone",
    "Anyone",
    "ClusterCenter",
    "ClusterMember",
    "Future",
    "HindsightGoals",
    "Neighborhood",
    "Neighbors",
    "NoNeighbors",
    "RandomNeighbor",
    "Successor",
]
