"""Parser of ``--replay_parameters``: the schema of the original platform, or our settings of a mix."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interreplay.errors import UsageError, accepted_names
from interreplay.learning.setting_fields import Accepts, Number, OneOf, WholeNumber, json_or_python
from interreplay.unrolls.mix_settings import STANDARD, check_entries

EXAMPLE = json.dumps(STANDARD)


@dataclass(frozen=True)
class Key:
    """A key of the original schema.

    Attributes:
        accepts: Accepted values.
        ours: Name of our setting.
        values: Our names of the values, if they differ.
    """

    accepts: Accepts
    ours: str
    values: Mapping[Any, Any] | None = None


def _choice(ours: str, values: Mapping[str, Any]) -> Key:
    return Key(OneOf(*values), ours, values)


COMMON = {
    "capacity": Key(WholeNumber(1), "capacity"),
    "sample_ratio": Key(Number(0, 1), "share"),
}
CUSTOM = COMMON | {
    "dist_function": _choice("distance", {"ln_norm": "ln", "cos_dist": "cosine", "kl_div": "kl"}),
    "p": Key(WholeNumber(1), "norm"),
    "insert_strategy": _choice("insertion", {"elite_insertion": "elite"}),
    "sample_strategy": _choice("type", {"elite_sampling": "elite", "attentive_sampling": "attentive"}),
    "lambda_batch_multiplier": Key(WholeNumber(1), "multiplier"),
    "alfa_annealing_factor": Key(Number(0, open_low=True), "alpha"),
    "elite_sampling_strategy": _choice("strategy", {f"strategy{number}": number for number in (1, 2, 3, 4)}),
    "elite_batch_size": Key(WholeNumber(1), "candidates"),
}
ORIGINAL = {"queue": COMMON, "standard": COMMON, "custom": CUSTOM}
REQUIRED = {"queue": tuple(COMMON), "standard": tuple(COMMON), "custom": (*COMMON, "dist_function")}
CUSTOM_DEFAULTS = {"multiplier": 1, "alpha": 1.0, "strategy": 3, "candidates": 20, "norm": 2}
"""The original's defaults for settings that a custom buffer omits."""
APPLIES = {
    "elite": ("distance", "norm", "multiplier", "alpha", "strategy"),
    "attentive": ("distance", "norm", "multiplier", "alpha"),
    "uniform": (),
}


def read(given: str | Sequence[Any], batch_size: int | None = None) -> list[dict[str, Any]]:
    """Return validated settings of a mix, as accepted by `make_mix`.

    Args:
        given: JSON or Python literals as text, or their value: sources in our settings (``share``) or in the original
            schema (``sample_ratio``).
        batch_size: Number of unrolls per batch. In the original schema, every share must be a whole number of unrolls.
    """
    entries: Any = given
    if isinstance(given, str):
        try:
            entries = json_or_python(given.strip())
        except (ValueError, TypeError, MemoryError, RecursionError):
            raise UsageError(
                f"replay_parameters is not JSON and not a Python literal: {_shorten(given)}; expected such as {EXAMPLE}"
            ) from None
    if isinstance(entries, Mapping) or not isinstance(entries, Sequence) or not entries:
        raise UsageError(f"replay_parameters is {_shorten(entries)}; expected a list of sources such as {EXAMPLE}")
    is_original = False
    for entry in entries:
        if isinstance(entry, Mapping) and ("sample_ratio" in entry or entry.get("type") in ("standard", "custom")):
            is_original = True
    if is_original:
        entries = [_translate(entry, number) for number, entry in enumerate(entries, 1)]
    sources = check_entries(entries)
    if batch_size is not None and is_original:
        for number, (kind, source) in enumerate(sources, 1):
            unrolls = source.share * batch_size
            if abs(unrolls - round(unrolls)) > 1e-6:
                raise UsageError(
                    f"sample_ratio {source.share:g} of source {number}, {kind}, is {unrolls:g} of {batch_size} unrolls"
                    "; expected a whole number"
                )
    return list(map(dict, entries))


def _translate(entry: Any, number: int) -> dict[str, Any]:
    """Return a source of the original schema in our settings, with the original's defaults."""
    where = f"source {number} of replay_parameters"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {_shorten(entry)}; expected a mapping such as {json.dumps(STANDARD[0])}")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in ORIGINAL:
        raise UsageError(f"{where} has the type {kind!r}; {accepted_names(str(kind), ORIGINAL)}")
    keys = ORIGINAL[kind]
    found: dict[str, Any] = {}
    for name, value in entry.items():
        if name == "type":
            continue
        if name not in keys:
            raise UsageError(f"{where}, {kind}, has no key {name!r}; {accepted_names(str(name), keys)}")
        key = keys[name]
        if not key.accepts.admits(value):
            raise UsageError(f"{name} of {where}, {kind}, must be {key.accepts.described}, got {value!r}")
        found[key.ours] = key.values[value] if key.values else value
    for name in REQUIRED[kind]:
        if name not in entry:
            raise UsageError(f"{where}, {kind}, has no {name}; expected {keys[name].accepts.described}")
    if kind == "queue":
        return {"type": "queue"} | found
    # A store takes only the settings that apply to its sampling and its insertion.
    sampling = found.pop("type", "uniform")
    names = set(APPLIES[sampling])
    if "insertion" in found:
        names |= {"distance", "norm", "candidates"}
    filled = CUSTOM_DEFAULTS | found
    names |= found.keys() & {"capacity", "share", "insertion"}
    return {"type": sampling} | {name: filled[name] for name in sorted(names)}


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    if len(text) > 80:
        return f"{text[:79]!r}…"
    return repr(text)
