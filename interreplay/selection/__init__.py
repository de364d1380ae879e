"""Selection: which stored rows become anchors."""

from interreplay.selection.attentive import Attentive
from interreplay.selection.base import Drawn, Selector, Stored
from interreplay.selection.combined import Combined
from interreplay.selection.elite import Elite
from interreplay.selection.event_tables import EventTables
from interreplay.selection.large_batch import LargeBatch
from interreplay.selection.loss_adjusted import ActorPrioritized, LossAdjusted
from interreplay.selection.mixed import MixedSelection
from interreplay.selection.online import Online
from interreplay.selection.prioritized import Prioritized
from interreplay.selection.recency import EmphasizedRecent, TruncatedGeometric
from interreplay.selection.reducible import Reducible
from interreplay.selection.uniform import Uniform

__all__ = [
    "ActorPrioritized",
    "Attentive",
    "Combined",
    "Drawn",
    "Elite",
    "EmphasizedRecent",
    "EventTables",
    "LargeBatch",
    "LossAdjusted",
    "MixedSelection",
    "Online",
    "Prioritized",
    "Reducible",
    "Selector",
    "Stored",
    "TruncatedGeometric",
    "Uniform",
]
