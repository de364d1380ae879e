"""Fields of settings, with default, accepted values and help.

Command-line flags, ``Config.training`` and error messages are generated from dataclasses of such fields.
"""

from __future__ import annotations

import bisect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, field, fields
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

from interreplay.errors import accepted_names

Settings = TypeVar("Settings")


class Accepts(ABC):
    """The values that a setting accepts.

    Attributes:
        described: The accepted values, such as "a number of at least 0".
        metavar: Placeholder of a value in ``--help``.
    """

    described: str
    metavar: str = "X"

    @abstractmethod
    def admits(self, value: Any) -> bool:
        """Return whether a value is accepted."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Return the value of a text, without checking it.

        Raises:
            ValueError: The text cannot be parsed.
        """

    def read(self, text: str) -> Any:
        """Return the accepted value of a text.

        Raises:
            ValueError: The value is not accepted; the message states what is.
        """
        try:
            value = self.parse(text)
            if self.admits(value):
                return value
        except (ValueError, OverflowError, KeyError):
            pass
        raise ValueError(f"must be {self.described}, got {text!r}")


class Number(Accepts):
    """A finite number.

    Args:
        low: Smallest accepted number.
        high: Largest accepted number.
        open_low: Whether `low` itself is rejected.
    """

    def __init__(self, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False):
        self.low = low
        self.high = high
        self.open_low = open_low
        bounds = []
        if low > -math.inf:
            bounds.append(f"above {low:g}" if open_low else f"of at least {low:g}")
        if high < math.inf:
            bounds.append(f"at most {high:g}")
        self.described = f"a number {', '.join(bounds)}".strip()

    def admits(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            return False
        if self.open_low and float(value) == self.low:
            return False
        return self.low <= float(value) <= self.high

    def parse(self, text: str) -> float:
        return float(text)


class Whole(Accepts):
    """A whole number, in text also like ``1e6`` or ``1_000_000``.

    Args:
        low: Smallest accepted number.
        high: Largest accepted number; None for 10^15 - 1.
    """

    metavar = "N"

    def __init__(self, low: int, high: int | None = None):
        self.low = low
        self.high = 10**15 - 1 if high is None else high
        self.described = f"a whole number of at least {low}"
        if high is not None:
            self.described = f"a whole number from {low} to {high}"

    def admits(self, value: Any) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and self.low <= int(value) <= self.high

    def parse(self, text: str) -> Any:
        value = float(text)
        return int(value) if value == int(value) else value


class OneOf(Accepts):
    """Accept one of several names.

    Args:
        *names: The accepted names.
    """

    def __init__(self, *names: str):
        self.names = names
        self.described = f"one of {', '.join(names)}"
        self.metavar = "|".join(names)

    def admits(self, value: Any) -> bool:
        return value in self.names

    def parse(self, text: str) -> str:
        return text


class OrWord(Accepts):
    """Values accepted by another `Accepts`, or one word.

    Args:
        other: The other.
        word: The word, such as "auto".
        stands_for: Value of the word in a text; the word itself by default.
    """

    def __init__(self, other: Accepts, word: str, stands_for: Any = ...):
        self.other = other
        self.word = word
        self.stands_for = word if stands_for is ... else stands_for
        self.described = f"{other.described} or {word!r}"
        self.metavar = f"{other.metavar}|{word}"

    def admits(self, value: Any) -> bool:
        return value == self.stands_for or self.other.admits(value)

    def parse(self, text: str) -> Any:
        return self.stands_for if text == self.word else self.other.parse(text)


class YesNo(Accepts):
    """True or False."""

    described = "True or False"
    metavar = "True|False"

    def admits(self, value: Any) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str) -> bool:
        return {"true": True, "false": False}[text.lower()]


class Rate(Accepts):
    """A learning rate, or a schedule of them ``[[env_step, rate], ...]`` from step 0 on, linear in between.

    In text ``3e-4``, ``0:3e-4,100000:1e-5``, or as it is printed.

    Args:
        low: Smallest rate.
        open_low: Whether `low` itself is rejected.
    """

    def __init__(self, low: float = 0.0, *, open_low: bool = True):
        self.one = Number(low, open_low=open_low)
        self.described = f"{self.one.described}, or a schedule such as [[0, 3e-4], [100000, 1e-5]]"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple):
            return self.one.admits(value)
        pairs = [pair for pair in value if isinstance(pair, list | tuple) and len(pair) == 2]
        if len(pairs) != len(value) or not pairs or not all(self.one.admits(rate) for _, rate in pairs):
            return False
        steps = [step for step, _ in pairs]
        return all(map(Whole(0).admits, steps)) and steps[0] == 0 and all(a < b for a, b in pairwise(steps))

    def parse(self, text: str) -> Any:
        if ":" not in text:
            return json.loads(text) if "[" in text else float(text)
        pairs = [pair.split(":") for pair in text.split(",")]
        return [[Whole(0).parse(step), float(rate)] for step, rate in pairs]


def rate_at(rate: Any, env_steps: int) -> float:
    """Return a learning rate, or the value of its schedule ``[[env_step, rate], ...]``, linear between points."""
    if not isinstance(rate, list | tuple):
        return float(rate)
    steps, rates = zip(*rate, strict=True)
    place = bisect.bisect_right(steps, env_steps)
    if place in (0, len(steps)):
        return float(rates[0 if place == 0 else -1])
    slope = (rates[place] - rates[place - 1]) / (steps[place] - steps[place - 1])
    return float(slope * (env_steps - steps[place - 1]) + rates[place - 1])


class WholeOrRange(Accepts):
    """A positive integer, or two, the smaller one first, from which one is drawn; in text ``3`` or ``2,5``."""

    described = "a whole number of at least 1, or two such as 2,5, the smaller one first"
    metavar = "N"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple):
            return Whole(1).admits(value)
        return len(value) == 2 and all(map(Whole(1).admits, value)) and value[0] <= value[1]

    def parse(self, text: str) -> Any:
        numbers = tuple(Whole(1).parse(word) for word in text.strip().strip("[]()").split(","))
        return numbers[0] if len(numbers) == 1 else numbers


class Widths(Accepts):
    """Widths of hidden layers, such as ``256,256``."""

    described = "whole numbers of at least 1 such as 256,256"
    metavar = "N"

    def admits(self, value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) > 0 and all(map(Whole(1).admits, value))

    def parse(self, text: str) -> tuple[int, ...]:
        return tuple(int(word) for word in text.strip().strip("[]()").replace(",", " ").split())


class Increasing(Accepts):
    """Positive integers in increasing order, such as ``15001,50001``."""

    described = "whole numbers of at least 1 in increasing order such as 15001,50001"
    metavar = "N,N"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple) or not value or not all(map(Whole(1).admits, value)):
            return False
        return all(first < second for first, second in pairwise(value))

    def parse(self, text: str) -> tuple[int, ...]:
        return tuple(Whole(1).parse(word) for word in text.strip().strip("[]()").split(","))


class Range(Accepts):
    """Two numbers, the smaller one first, such as ``-10,10``."""

    described = "two numbers, the smaller one first, such as -10,10"
    metavar = "LOW,HIGH"

    def admits(self, value: Any) -> bool:
        two = isinstance(value, list | tuple) and len(value) == 2 and all(map(Number().admits, value))
        return two and value[0] < value[1]

    def parse(self, text: str) -> tuple[float, ...]:
        return tuple(float(word) for word in text.strip().strip("[]()").replace(",", " ").split())


class Network(Accepts):
    """Layers by stream, such as ``{"actor": [...], "critic": [...]}``; in text as JSON."""

    described = 'layers by stream, such as {"critic": [{"layer": "Linear", "out_features": 256}, "ReLU", "Linear"]}'
    metavar = "JSON"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or not value:
            return False
        return all(isinstance(layers, Mapping | list | tuple) and len(layers) for layers in value.values())

    def parse(self, text: str) -> Any:
        return json.loads(text)


def setting(default: Any, accepts: Accepts, help: str) -> Any:
    """Return a dataclass field.

    Args:
        default: Default value.
        accepts: Accepted values.
        help: Description for ``--help`` and the documentation.
    """
    return field(default=default, metadata={"accepts": accepts, "help": help})


def changed_default(owner: type, name: str, default: Any) -> Any:
    """Return a field like that of another dataclass with another default."""
    (found,) = (f for f in fields(owner) if f.name == name)
    return field(default=default, metadata=found.metadata)


def with_defaults(**changed: Any) -> Callable[[type[Settings]], type[Settings]]:
    """Return a decorator that changes the defaults of inherited settings; `dataclass` is applied to its result."""

    def decorate(kind: type[Settings]) -> type[Settings]:
        own = dict(vars(kind).get("__annotations__", {}))
        for found in fields(kind):  # type: ignore[arg-type]
            if found.name in changed:
                setattr(kind, found.name, field(default=changed[found.name], metadata=found.metadata))
                own[found.name] = found.type
        kind.__annotations__ = own
        return kind

    return decorate


def without_settings(**fixed: Any) -> Callable[[type[Settings]], type[Settings]]:
    """Return a decorator that turns inherited settings into constants; `dataclass` is applied to its result."""

    def decorate(kind: type[Settings]) -> type[Settings]:
        kind.__annotations__ = dict(vars(kind).get("__annotations__", {})) | dict.fromkeys(fixed, ClassVar)
        for name, value in fixed.items():
            setattr(kind, name, value)
        return kind

    return decorate


def accepted_by(found: Field[Any]) -> Accepts:
    """Return the accepted values of a field made by `setting`."""
    return found.metadata["accepts"]


def defaults(owner: type) -> dict[str, Any]:
    """Return the default of each setting of a dataclass by its name."""
    return {found.name: found.default for found in fields(owner)}


def check_known(title: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Reject unknown settings.

    Raises:
        TypeError: A name is unknown; the message suggests the nearest name.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(f"{title} has no setting {name!r}; {accepted_names(name, names)}")
