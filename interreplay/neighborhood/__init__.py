"""Neighborhoods: the rows that an anchor may be blended with."""

from interreplay.neighborhood.base import NO_NEIGHBOR, SYNTHETIC, Neighborhood, Neighbors
from interreplay.neighborhood.cluster import ClusterCenter, ClusterMember
from interreplay.neighborhood.hindsight_goals import HindsightGoals
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.simple import NoNeighbors, RandomNeighbor, Successor

__all__ = [
    "KNN",
    "NO_NEIGHBOR",
    "SYNTHETIC",
    "ClusterCenter",
    "ClusterMember",
    "HindsightGoals",
    "Neighborhood",
    "Neighbors",
    "NoNeighbors",
    "RandomNeighbor",
    "Successor",
]
