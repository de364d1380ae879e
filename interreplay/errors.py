"""The errors that a user can cause and mend; everything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InterreplayError(Exception):
    """Base of the errors below."""


class NonFiniteError(InterreplayError, ValueError):
    """A column to be stored holds NaN or infinity.

    Attributes:
        column: Name of the column, such as ``"rewards"``.
        row: Index of the first bad row within the transitions that were added.
    """

    def __init__(self, column: str, row: int, value: float, at: str | None = None):
        where = at or f"row {row} of the added transitions"
        super().__init__(f"{column} holds {value} at {where}; only finite values can be replayed")
        self.column, self.row, self.value, self.at = column, row, value, at

    def __reduce__(self) -> tuple[type, tuple[str, int, float, str | None]]:
        """Ray copies and pickles exceptions."""
        return type(self), (self.column, self.row, self.value, self.at)


class CheckpointError(InterreplayError):
    """A checkpoint cannot be read, is damaged, or belongs to something else."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Half a sentence for error messages: the nearest valid name and all of them."""
    names = sorted(valid)
    folded = {n.lower(): n for n in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}? " if close else ""
    return f"{hint}valid: {', '.join(names)}"
