"""Selection: which stored rows become the anchors of a batch."""

from interreplay.selection.age_decay import Faded, SampleWeightDecay
from interreplay.selection.attentive import Attentive
from interreplay.selection.base import Draw, Selector, SlotStore, Uniform
from interreplay.selection.composite import Combined, MixedSelection
from interreplay.selection.elite import Elite
from interreplay.selection.event_tables import EventTables
from interreplay.selection.large_batch import LargeBatch
from interreplay.selection.loss_adjusted import ActorPrioritized, LossAdjusted
from interreplay.selection.prioritized import Prioritized, Reducible
from interreplay.selection.recency import EmphasizedRecent, Online, TruncatedGeometric

__all__ = [
    "ActorPrioritized",
    "Attentive",
    "Combined",
    "Draw",
    "Elite",
    "EmphasizedRecent",
    "EventTables",
    "Faded",
    "LargeBatch",
    "LossAdjusted",
    "MixedSelection",
    "Online",
    "Prioritized",
    "Reducible",
    "SampleWeightDecay",
    "Selector",
    "SlotStore",
    "TruncatedGeometric",
    "Uniform",
]
