"""The text of ``--replay_parameters``: the original platform's schema, or our settings of a mix."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interreplay.errors import UsageError, accepted_names
from interreplay.learning.setting_fields import Accepts, Number, OneOf, Whole
from interreplay.unrolls.mix_settings import STANDARD, make_mix


@dataclass(frozen=True)
class Key:
    """One key of the original's schema.

    Attributes:
        accepts: Which values.
        ours: Name of our setting.
        values: What its values are called here, where that differs.
    """

    accepts: Accepts
    ours: str
    values: Mapping[Any, Any] | None = None


def _named(ours: str, values: Mapping[str, Any]) -> Key:
    return Key(OneOf(*values), ours, values)


COMMON = {
    "capacity": Key(Whole(1), "capacity"),
    "sample_ratio": Key(Number(0, 1), "share"),
}
CUSTOM = COMMON | {
    "dist_function": _named("distance", {"ln_norm": "ln", "cos_dist": "cosine", "kl_div": "kl"}),
    "p": Key(Whole(1), "norm"),
    "insert_strategy": _named("insertion", {"elite_insertion": "elite"}),
    "sample_strategy": _named("type", {"elite_sampling": "elite", "attentive_sampling": "attentive"}),
    "lambda_batch_multiplier": Key(Whole(1), "multiplier"),
    "alfa_annealing_factor": Key(Number(0, open_low=True), "alpha"),
    "elite_sampling_strategy": _named("strategy", {f"strategy{number}": number for number in (1, 2, 3, 4)}),
    "elite_batch_size": Key(Whole(1), "candidates"),
}
ORIGINAL = {"queue": COMMON, "standard": COMMON, "custom": CUSTOM}
REQUIRED = {"queue": tuple(COMMON), "standard": tuple(COMMON), "custom": (*COMMON, "dist_function")}
FALLEN_BACK = {"multiplier": 1, "alpha": 1.0, "strategy": 3, "candidates": 20, "norm": 2}
"""The original's defaults of what a custom buffer leaves out."""
APPLIES = {
    "elite": ("distance", "norm", "multiplier", "alpha", "strategy"),
    "attentive": ("distance", "norm", "multiplier", "alpha"),
    "uniform": (),
}


def read(given: str | Sequence[Any], batch_size: int | None = None) -> list[dict[str, Any]]:
    """Return settings of a mix, as `make_mix` takes them, and refuse those that make none.

    Args:
        given: A text of JSON or of Python literals, or what it holds: sources by our settings (``share``) or by the
            original's schema (``sample_ratio``).
        batch_size: Unrolls per batch. By the original's schema every share of it has to be a whole number.

    Raises:
        UsageError: When it is no such text, a key or a value is not accepted, shares do not add up to 1, or none is
            fresh.
    """
    entries: Any = _parsed(given) if isinstance(given, str) else given
    if isinstance(entries, Mapping) or not isinstance(entries, Sequence) or not entries:
        raise UsageError(f"replay_parameters is {_short(entries)}; expected a list of sources such as {_example()}")
    of_original = any(
        isinstance(entry, Mapping) and ("sample_ratio" in entry or entry.get("type") in ("standard", "custom"))
        for entry in entries
    )
    if of_original:
        entries = [_translated(entry, number) for number, entry in enumerate(entries, 1)]
    mix = make_mix(entries)
    if batch_size is not None:
        mix.check(batch_size, whole=of_original)
    return [dict(entry) for entry in entries]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UsageError(
            f"replay_parameters is no JSON and no Python literal: {_short(text)}; expected such as {_example()}"
        ) from None


def _translated(entry: Any, number: int) -> dict[str, Any]:
    """Return one source of the original's schema as our settings."""
    where = f"source {number} of replay_parameters"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {_short(entry)}; expected a mapping such as {_example(1)}")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in ORIGINAL:
        raise UsageError(f"{where} has the type {kind!r}; {accepted_names(str(kind), ORIGINAL)}")
    keys, found = ORIGINAL[kind], {}
    for name, value in entry.items():
        if name == "type":
            continue
        if name not in keys:
            raise UsageError(f"{where}, {kind}, has no key {name!r}; {accepted_names(str(name), keys)}")
        key = keys[name]
        if not key.accepts.admits(value):
            raise UsageError(f"{name} of {where}, {kind}, must be {key.accepts.described}, got {value!r}")
        found[key.ours] = value if key.values is None else key.values[value]
    for name in REQUIRED[kind]:
        if name not in entry:
            raise UsageError(f"{where}, {kind}, has no {name}; expected {keys[name].accepts.described}")
    return {"type": "queue"} | found if kind == "queue" else _applying(found)


def _applying(found: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that apply to a store with such sampling and insertion, with the original's defaults."""
    kind = found.pop("type", "uniform")
    names = set(APPLIES[kind]) | ({"distance", "norm", "candidates"} if "insertion" in found else set())
    base = {name: found[name] for name in ("capacity", "share", "insertion") if name in found}
    filled = FALLEN_BACK | found
    return {"type": kind} | base | {name: filled[name] for name in sorted(names)}


def _short(value: Any, most: int = 80) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return repr(text) if len(text) <= most else f"{text[: most - 1]!r}…"


def _example(count: int = 2) -> str:
    return json.dumps(list(STANDARD[:count]) if count > 1 else dict(STANDARD[0]))
