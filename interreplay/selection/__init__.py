"""Selection: which stored rows become anchors."""

from interreplay.selection.attentive import Attentive
from interreplay.selection.base import Selector, Stored
from interreplay.selection.combined import Combined
from interreplay.selection.elite import Elite
from interreplay.selection.online import Online
from interreplay.selection.prioritized import Prioritized
from interreplay.selection.uniform import Uniform

__all__ = ["Attentive", "Combined", "Elite", "Online", "Prioritized", "Selector", "Stored", "Uniform"]
