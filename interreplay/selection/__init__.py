"""Selection: which stored rows become anchors."""

from interreplay.selection.base import Selector
from interreplay.selection.prioritized import Prioritized
from interreplay.selection.uniform import Uniform

__all__ = ["Prioritized", "Selector", "Uniform"]
