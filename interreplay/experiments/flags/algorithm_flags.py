"""The flags of the algorithms' and the loop's settings, generated from their dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import boolean, reader, sources
from interreplay.learning.algorithms_table import ALGORITHMS, UNROLLS, VARIANTS
from interreplay.learning.setting_fields import Widths, YesNo, accepted_by
from interreplay.learning.settings import ReplaySettings


def _flags() -> dict[str, Flag]:
    """Return a flag for each setting of any algorithm; its help lists its algorithms and their defaults."""
    having: dict[str, list[str]] = {}
    for name, algorithm in ALGORITHMS.items():
        for found in fields(algorithm.settings):
            if found.name in _LOOP:
                continue  # only another default for a flag of the loop
            having.setdefault(found.name, []).append(name)
    made = {}
    for name, owners in having.items():
        (found,) = (f for f in fields(ALGORITHMS[owners[0]].settings) if f.name == name)
        only = "" if len(owners) == len(ALGORITHMS) else f"{_owners(owners)} only; "
        text = f"{found.metadata['help']} ({only}{_default(name, owners)})"
        accepts = accepted_by(found)
        read = boolean if isinstance(accepts, YesNo) else reader(accepts)
        many = isinstance(getattr(accepts, "other", accepts), Widths)
        made[name] = Flag(name, read, None, text, many=many)
    return made


def _default(name: str, owners: list[str]) -> str:
    having: dict[str, list[str]] = {}
    for owner in owners:
        having.setdefault(_shown(ALGORITHMS[owner].defaults[name]), []).append(owner)
    if len(having) == 1:
        return f"default: {next(iter(having))}"
    return "default: " + ", ".join(f"{value} ({_owners(names)})" for value, names in having.items())


def _owners(names: list[str]) -> str:
    """Return a list of algorithms in words, with DQN's variants summarized."""
    if {*names} >= VARIANTS:
        last = max(place for place, name in enumerate(names) if name in VARIANTS)
        others = [name for name in names[last + 1 :] if name not in VARIANTS]
        names = [*(name for name in names[:last] if name not in VARIANTS), "DQN with its variants", *others]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)


_LOOP = {found.name: found for found in fields(ReplaySettings)}
ALGORITHM_FLAGS = _flags()
RATES = frozenset(name for name in ALGORITHM_FLAGS if name.endswith("lr"))
"""Learning rates, which a resumed run may change."""
REPLAY_PARAMETERS = Flag(
    "replay_parameters",
    sources,
    None,
    f"unrolls that {', '.join(UNROLLS)} replay, as JSON in the original platform's schema or ours, such as "
    '[{"type": "queue", "share": 0.5}, {"type": "elite", "capacity": 1000, "share": 0.5}]',
    scope="method",
    in_study="buffers",
)
TRAINERS = {name: algorithm.config for name, algorithm in ALGORITHMS.items()}
"""Configuration class in `interreplay.rllib` of each algorithm of ``--trainer``."""


def loop_flag(name: str, **options: Any) -> Flag:
    """Return the flag of a setting of the loop; `options` override the attributes of the flag."""
    found = _LOOP[name]
    others = [f"{owner}: {a.defaults[name]}" for owner, a in ALGORITHMS.items() if name in a.defaults]
    text = found.metadata["help"] + (f" ({', '.join(others)})" if others else "")
    stated = {"type": reader(accepted_by(found)), "default": found.default, "help": text}
    return Flag(name, **(stated | options))


def algorithm_settings(given: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """Return the default settings of an algorithm, after checking the given flags.

    Args:
        given: Flags and values that were given.
        trainer: The algorithm.

    Raises:
        UsageError: A flag belongs to another algorithm or another kind of exploration.
    """
    own = ALGORITHMS[trainer].defaults
    for name in ALGORITHM_FLAGS:
        if name in given and name not in own:
            having = _owners([other for other, found in ALGORITHMS.items() if name in found.defaults])
            like = [f"--{one}" for one in own if one.endswith("lr")] if name.endswith("lr") else []
            hint = f", it has {', '.join(like)}" if like else ""
            raise UsageError(f"--{name} is a setting of {having}; {trainer} does not have it{hint}")
    kind = given.get("exploration", own.get("exploration"))
    if "exploration_theta" in given and kind == "Gaussian":
        raise UsageError("--exploration_theta needs --exploration OrnsteinUhlenbeck")
    if kind == own.get("exploration"):
        return own
    others = (a.defaults["exploration_sigma"] for a in ALGORITHMS.values() if a.defaults.get("exploration") == kind)
    return own | {"exploration_sigma": next(others)}
