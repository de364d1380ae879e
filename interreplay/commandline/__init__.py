"""What the command line needs besides the training itself; none of it needs Ray."""

from __future__ import annotations


class UsageError(ValueError):
    """What was asked for cannot be done; the message is one line that names the value and what would be accepted."""
