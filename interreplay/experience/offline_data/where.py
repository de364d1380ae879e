"""Filters of recorded experience: environment, return, success, version of the policy, and newest rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from interreplay.errors import UsageError
from interreplay.learning.setting_fields import Number, WholeNumber

SYNTAX = "conditions, separated by commas, such as return>=500, success, version>=10_000, newest=100_000, env=Hopper-v5"
_CONDITION = re.compile(r"\s*(?P<name>\w+)\s*(?:(?P<sign>>=|=)\s*(?P<value>[^\s,]+))?\s*")


@dataclass(frozen=True)
class Where:
    """Conditions that recorded rows must fulfill.

    Attributes:
        env: Id of the environment; datasets of other environments are left out. "" for any.
        min_return: Minimum return of an episode, after relabeling; None for any. Episodes without a recorded end have
            no return and are left out.
        success: Whether an episode must contain a success.
        min_version: Minimum version of the policy that acted, in updates; None for any.
        newest: Number of newest rows to keep after the other conditions; None for all.
    """

    env: str = ""
    min_return: float | None = None
    success: bool = False
    min_version: int | None = None
    newest: int | None = None

    @classmethod
    def parse(cls, given: Any) -> Where:
        """Return the conditions of a text such as ``"return>=500, newest=100_000"``, of None, or of a `Where`.

        Raises:
            UsageError: The text is invalid.
        """
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        if not isinstance(given, str):
            raise UsageError(f"where is {given!r}; expected {SYNTAX}")
        found: dict[str, Any] = {}
        for part in filter(str.strip, given.split(",")):
            match = _CONDITION.fullmatch(part)
            key = match and f"{match['name']}{match['sign'] or ''}"
            if match is None or key not in _READERS:
                raise UsageError(f"where: {part.strip()!r} is invalid; expected {SYNTAX}")
            name, read = _READERS[key]
            if name in found:
                raise UsageError(f"where: {part.strip()!r} is the second condition of its kind; expected one of each")
            try:
                found[name] = read(match["value"])
            except ValueError:
                raise UsageError(f"where: {part.strip()!r} is invalid; expected {SYNTAX}") from None
        return cls(**found)

    def __str__(self) -> str:
        """Return the conditions in the form that `parse` reads; "" without conditions."""
        parts = []
        if self.env:
            parts.append(f"env={self.env}")
        if self.min_return is not None:
            all_digits = repr(float(self.min_return)).removesuffix(".0")
            parts.append(f"return>={all_digits}")
        if self.success:
            parts.append("success")
        if self.min_version is not None:
            parts.append(f"version>={self.min_version}")
        if self.newest is not None:
            parts.append(f"newest={self.newest}")
        return ", ".join(parts)


_READERS: dict[str, tuple[str, Any]] = {
    "env=": ("env", str),
    "return>=": ("min_return", Number().read),
    "success": ("success", lambda _: True),
    "version>=": ("min_version", WholeNumber(0).read),
    "newest=": ("newest", WholeNumber(1).read),
}
