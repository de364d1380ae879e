"""Neighbourhoods: what an anchor may be mixed with."""

from interreplay.neighborhood.alone import Alone
from interreplay.neighborhood.anyone import Anyone
from interreplay.neighborhood.base import Neighborhood
from interreplay.neighborhood.cluster import ClusterCenter, ClusterMember
from interreplay.neighborhood.future import Future
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.successor import Successor

__all__ = ["KNN", "Alone", "Anyone", "ClusterCenter", "ClusterMember", "Future", "Neighborhood", "Successor"]
