"""V-trace, importable by its earlier path; see `interreplay.learning.policy_gradient.vtrace`."""

from interreplay.learning.policy_gradient.vtrace import vtrace

__all__ = ["vtrace"]
