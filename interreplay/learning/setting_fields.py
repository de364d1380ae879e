"""Fields of settings, with default, accepted values and help.

Command-line flags, ``Config.training`` and error messages are generated from dataclasses of such fields.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
from abc import ABC, abstractmethod
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

Settings = TypeVar("Settings")


class Accepts(ABC):
    """The values that a setting accepts.

    Attributes:
        described: The accepted values, such as "a number of at least 0".
        metavar: Placeholder of a value in ``--help``.
    """

    described: str
    metavar: str = "X"

    @property
    def in_python(self) -> str:
        """The accepted values in Python, where None takes the place of words such as "none"."""
        return self.described

    @abstractmethod
    def admits(self, value: Any) -> bool:
        """Return whether a value is accepted."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Return the value of a text without checking it; raise a ValueError if it cannot be parsed."""

    def read(self, text: str) -> Any:
        """Return the value of a text; raise a ValueError that states what is accepted."""
        try:
            value = self.parse(text)
            if self.admits(value):
                return value
        except (ValueError, OverflowError, KeyError):
            pass
        raise ValueError(f"must be {self.described}, got {text!r}")

    def __call__(self, text: str) -> Any:
        """Return the value of a flag, as the ``type`` of argparse."""
        try:
            return self.read(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None


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
        if open_low:
            bounds.append(f"above {low:g}")
        elif low > -math.inf:
            bounds.append(f"of at least {low:g}")
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


class WholeNumber(Accepts):
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
        if value == int(value):
            return int(value)
        return value


SEED = WholeNumber(0, 2**31 - 1)
"""A seed. RLlib adds a million and the runner's index for evaluations; NumPy accepts sums below 2^32."""


class OneOf(Accepts):
    """One of several names."""

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
        other: Accepts all other values.
        word: The word, such as "auto".
        stands_for: Value of the word in a text; the word itself by default.
    """

    def __init__(self, other: Accepts, word: str, stands_for: Any = ...):
        self.other = other
        self.word = word
        self.stands_for = stands_for
        if stands_for is ...:
            self.stands_for = word
        self.described = f"{other.described} or {word!r}"
        self.metavar = f"{other.metavar}|{word}"

    @property
    def in_python(self) -> str:
        return f"{self.other.in_python} or {self.stands_for!r}"

    def admits(self, value: Any) -> bool:
        if isinstance(value, type(self.stands_for)) and value == self.stands_for:
            return True
        return self.other.admits(value)

    def parse(self, text: str) -> Any:
        if text == self.word:
            return self.stands_for
        return self.other.parse(text)


class Boolean(Accepts):
    """True or False, in text also ``yes``, ``on`` and ``1``, or ``no``, ``off`` and ``0``."""

    described = "True or False"
    metavar = "True|False"

    def admits(self, value: Any) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str) -> bool:
        values = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
        return values[text.lower()]


class Rate(Accepts):
    """A learning rate, or a schedule of them ``[[env_step, rate], ...]`` from step 0 on, linear in between.

    Texts look like ``3e-4``, ``0:3e-4,100000:1e-5`` or ``[[0, 3e-4], [100000, 1e-5]]``.
    """

    def __init__(self, *, open_low: bool = True):
        self.one = Number(0.0, open_low=open_low)
        self.described = f"{self.one.described}, or a schedule such as [[0, 3e-4], [100000, 1e-5]]"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple):
            return self.one.admits(value)
        steps = []
        for pair in value:
            if not isinstance(pair, list | tuple) or len(pair) != 2 or not self.one.admits(pair[1]):
                return False
            steps.append(pair[0])
        ascending = all(map(WholeNumber(0).admits, steps)) and steps == sorted(set(steps))
        return ascending and steps[:1] == [0]

    def parse(self, text: str) -> Any:
        if ":" in text:
            pairs = []
            for pair in text.split(","):
                step, rate = pair.split(":")
                pairs.append([WholeNumber(0).parse(step), float(rate)])
            return pairs
        if "[" in text:
            return json.loads(text)
        return float(text)


def rate_at(rate: Any, env_steps: int) -> float:
    """Return a learning rate, or the value of its schedule ``[[env_step, rate], ...]``, linear between points."""
    if not isinstance(rate, list | tuple):
        return float(rate)
    steps, rates = zip(*rate, strict=True)
    import numpy as np  # imported here so that the smoke test can report a missing numpy

    return float(np.interp(env_steps, steps, rates))


class Numbers(Accepts):
    """Base of several numbers, such as ``256,256``, optionally in brackets."""

    metavar = "N"
    one: Accepts = WholeNumber(1)

    def admits(self, value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) > 0 and all(map(self.one.admits, value))

    def parse(self, text: str) -> Any:
        return tuple(map(self.one.parse, text.strip().strip("[]()").replace(",", " ").split()))


class Widths(Numbers):
    """Widths of hidden layers, such as ``256,256``."""

    described = "whole numbers of at least 1 such as 256,256"


class WholeOrRange(Numbers):
    """A positive integer, or two, the smaller one first, from which one is drawn; in text ``3`` or ``2,5``."""

    described = "a whole number of at least 1, or two such as 2,5, the smaller one first"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple):
            return self.one.admits(value)
        return super().admits(value) and len(value) == 2 and value[0] <= value[1]

    def parse(self, text: str) -> Any:
        numbers = super().parse(text)
        if len(numbers) == 1:
            return numbers[0]
        return numbers


class IncreasingIntegers(Numbers):
    """Positive integers in increasing order, such as ``15001,50001``."""

    described = "whole numbers of at least 1 in increasing order such as 15001,50001"
    metavar = "N,N"

    def admits(self, value: Any) -> bool:
        return super().admits(value) and list(value) == sorted(set(value))


class Range(Numbers):
    """Two numbers, the smaller one first, such as ``-10,10``."""

    described = "two numbers, the smaller one first, such as -10,10"
    metavar = "LOW,HIGH"
    one = Number()

    def admits(self, value: Any) -> bool:
        return super().admits(value) and len(value) == 2 and value[0] < value[1]


class Network(Accepts):
    """Layers by stream, such as ``{"actor": [...], "critic": [...]}``; in text as JSON."""

    described = 'layers by stream, such as {"critic": [{"layer": "Linear", "out_features": 256}, "ReLU", "Linear"]}'
    metavar = "JSON"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or not value:
            return False
        for layers in value.values():
            if not isinstance(layers, str | Mapping | list | tuple) or not layers:
                return False
        return True

    def parse(self, text: str) -> Any:
        return json.loads(text)


def json_or_python(text: str) -> Any:
    """Return the value of a text in JSON or of a Python literal; raise a ValueError for every other text."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{text!r} is neither JSON nor a Python literal") from None


class NamedClass(Accepts):
    """A class by name, or ``module:Class`` of a user, with arguments by name.

    In text ``my_module:MyNoise``, ``my_module:MyNoise sigma=0.2``, or a mapping ``{"type": "my_module:MyNoise"}``.
    """

    def __init__(self, *names: str):
        self.names = names
        listed = ", ".join(names)
        self.described = f"one of {listed}, or module:Class of your own, with arguments such as sigma=0.2"
        self.metavar = "|".join((*names, "module:Class"))

    def admits(self, value: Any) -> bool:
        if isinstance(value, Mapping):
            value = value.get("type")
        return isinstance(value, str) and (value in self.names or ":" in value)

    def parse(self, text: str) -> Any:
        if text.lstrip().startswith("{"):
            return json_or_python(text)
        name, *words = text.split()
        if not words:
            return name
        arguments: dict[str, Any] = {"type": name}
        for word in words:
            argument, value = word.split("=")
            arguments[argument] = json_or_python(value)
        return arguments


def setting(default: Any, accepts: Accepts, help: str) -> Any:
    """Return a dataclass field with its accepted values and its description for ``--help`` and the documentation."""
    return field(default=default, metadata={"accepts": accepts, "help": help})


def changed_default(owner: type, name: str, default: Any) -> Any:
    """Return a field of another dataclass with a different default."""
    return field(default=default, metadata=owner.__dataclass_fields__[name].metadata)  # type: ignore[attr-defined]


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


def get_accepted_values(found: Field[Any]) -> Accepts:
    """Return the accepted values of a field made by `setting`."""
    return found.metadata["accepts"]


def defaults(owner: type) -> dict[str, Any]:
    """Return the default of each setting of a dataclass by its name."""
    return {found.name: found.default for found in fields(owner)}


def check_without_effect(settings: Any, names: Collection[str], reason: str, expected: str) -> None:
    """Raise a ValueError if a setting differs from its default although it has no effect.

    Args:
        settings: Instance of a dataclass of settings.
        names: Names of settings without effect.
        reason: Why they have none, such as "distribution 'mean'".
        expected: When they have one, such as "distribution 'categorical'".
    """
    for found in fields(settings):
        value = getattr(settings, found.name)
        if isinstance(value, list):  # files and JSON contain no tuples
            value = tuple(value)
        if found.name in names and value != found.default:
            raise ValueError(f"{found.name} is {value!r} and {reason}; expected {expected}, or no {found.name}")
