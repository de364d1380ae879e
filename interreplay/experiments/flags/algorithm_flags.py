"""The flags of the algorithms' and the loop's settings, generated from their dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import format_value, select_settings, sources
from interreplay.learning import setting_fields
from interreplay.learning.algorithms_table import ALGORITHMS, UNROLLS, VARIANTS
from interreplay.learning.settings import ReplaySettings


def _flags() -> dict[str, Flag]:
    """Return a flag for each setting of any algorithm; its help lists its algorithms and their defaults."""
    made = {}
    for algorithm in ALGORITHMS.values():
        for setting in fields(algorithm.settings):
            name = setting.name
            if name in _LOOP or name in made:
                continue  # another default for a flag of the loop, or a setting of an algorithm above
            accepts = setting_fields.get_accepted_values(setting)
            many = isinstance(getattr(accepts, "other", accepts), setting_fields.Widths | setting_fields.NamedClass)
            text = _HELP.get(name, setting.metadata["help"])
            made[name] = Flag(name, accepts, None, f"{text} ({_defaults(name, accepts)})", many=many)
    return made


def as_given(default: Any, accepts: setting_fields.Accepts) -> str:
    """Return a default as a flag accepts it, such as ``256,256``, ``none`` or another word that stands for it."""
    if isinstance(accepts, setting_fields.OrWord) and default == accepts.stands_for:
        return accepts.word
    return format_value(default)


def _defaults(name: str, accepts: setting_fields.Accepts) -> str:
    """Return the algorithms that have a setting, with their defaults."""
    owners: dict[str, list[str]] = {}
    for algorithm, row in ALGORITHMS.items():
        if name in row.defaults:
            owners.setdefault(as_given(row.defaults[name], accepts), []).append(algorithm)
    parts = []
    for value, algorithms in owners.items():
        if len(algorithms) == len(ALGORITHMS):
            return f"default: {value}"
        parts.append(f"{value} ({_owners(algorithms)})")
    return f"default: {', '.join(parts)}"


def _owners(names: Iterable[str]) -> str:
    """Return a list of algorithms in words, with DQN's variants summarized."""
    text = ", ".join(names)
    return text.replace(", ".join(name for name in ALGORITHMS if name in VARIANTS), "DQN with its variants")


def exceptions(values: Mapping[str, Any], usual: Any) -> str:
    """Return the values that differ from the usual one, with their algorithms, such as ``A2C, A3C: 5``."""
    owners: dict[str, list[str]] = {}
    for algorithm, value in values.items():
        if value != usual:
            owners.setdefault(format_value(value), []).append(algorithm)
    return "; ".join(f"{', '.join(algorithms)}: {value}" for value, algorithms in owners.items())


def _list_replayed_shares() -> dict[str, float]:
    """Return the default share of replayed unrolls of each algorithm that replays unrolls with its default returns."""
    found = {}
    for name in UNROLLS:
        if ALGORITHMS[name].defaults["returns"] == "vtrace":
            sources = ALGORITHMS[name].buffer_args.get("parameters", ())
            found[name] = sum(source["share"] for source in sources if source["type"] != "queue")
    return found


_HELP = {"train_batch_size": f"transitions per update; with {', '.join(UNROLLS)}: fresh and replayed unrolls"}
"""Help of flags whose meaning depends on the algorithm."""
_LOOP = {found.name: found for found in fields(ReplaySettings)}
ALGORITHM_FLAGS = _flags()
RATES = frozenset(name for name in ALGORITHM_FLAGS if name.endswith("lr"))
"""Learning rates."""
CHANGEABLE_SETTINGS = RATES | {"torch_compile"}
"""Settings of algorithms that a resumed run may change."""
REPLAY_PARAMETERS = Flag(
    "replay_parameters",
    sources,
    None,
    f"unrolls to replay, with {', '.join(_list_replayed_shares())}, and A2C with --returns vtrace: JSON in the "
    'original platform\'s schema or ours, such as [{"type": "queue", "share": 0.5}, '
    f'{{"type": "elite", "capacity": 1000, "share": 0.5}}] '
    f"(replayed share by default: 0; {exceptions(_list_replayed_shares(), 0)})",
    scope="method",
    in_study="buffers",
)
TRAINERS = {name: algorithm.config for name, algorithm in ALGORITHMS.items()}
"""Configuration class in `interreplay.rllib` of each algorithm of ``--trainer``."""


def loop_flag(name: str, **options: Any) -> Flag:
    """Return the flag of a setting of the loop; `options` override the attributes of the flag."""
    setting = _LOOP[name]
    text = setting.metadata["help"]
    own = {owner: row.defaults[name] for owner, row in ALGORITHMS.items() if name in row.defaults}
    others = exceptions(own, setting.default)
    if others:
        text = f"{text} ({others})"
    stated = {"type": setting_fields.get_accepted_values(setting), "default": setting.default, "help": text}
    return Flag(name, **(stated | options))


def make_count_flag(name: str, help: str) -> Flag:
    """Return a flag with a whole number, by default 1; its help lists the algorithms with another default."""
    own = {owner: row.of_run[name] for owner, row in ALGORITHMS.items() if name in row.of_run}
    return Flag(name, setting_fields.WholeNumber(1), 1, f"{help} ({exceptions(own, 1)})")


def algorithm_settings(given: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """Return the default settings of an algorithm; reject given flags of other algorithms and explorations."""
    own = ALGORITHMS[trainer].defaults
    for name in ALGORITHM_FLAGS:
        if name in given and name not in own:
            having = _owners(other for other, row in ALGORITHMS.items() if name in row.defaults)
            hint = ""
            if name in RATES:
                hint = f", it has --{', --'.join(select_settings(own, RATES))}"
            raise UsageError(f"--{name} is a setting of {having}; {trainer} does not have it{hint}")
    kind = given.get("exploration", own.get("exploration"))
    if "exploration_theta" in given and kind == "Gaussian":
        raise UsageError("--exploration_theta needs --exploration OrnsteinUhlenbeck")
    if kind != own.get("exploration") and "exploration_sigma" in own:
        for row in ALGORITHMS.values():
            if row.defaults.get("exploration") == kind:
                return own | {"exploration_sigma": row.defaults["exploration_sigma"]}
    return own
