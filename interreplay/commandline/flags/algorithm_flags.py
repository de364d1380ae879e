"""Flags about the algorithms: which have which, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interreplay.algorithms_table import TRAINER_DEFAULTS
from interreplay.commandline.flags.parser import Flag
from interreplay.commandline.flags.values import choice, number, number_or, whole, widths
from interreplay.errors import UsageError


def _flag(name: str, type: Any, text: str, **options: Any) -> Flag:
    """A flag whose help tells each algorithm's default, and which algorithms have it."""
    values = {trainer: defaults[name] for trainer, defaults in TRAINER_DEFAULTS.items() if name in defaults}
    shown = {trainer: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for trainer, v in values.items()}
    every = len(values) == len(TRAINER_DEFAULTS)
    if len(set(shown.values())) == 1:
        told = f"default: {next(iter(shown.values()))}"
    else:
        told = "default: " + ", ".join(f"{value} ({trainer})" for trainer, value in shown.items())
    return Flag(name, type, None, f"{text} ({'' if every else ' and '.join(values) + ' only; '}{told})", **options)


BATCH_FLAG = _flag("train_batch_size", whole(1), "transitions per update")
TRAINER_FLAGS = (
    _flag("tau", number(0, 1, open_low=True), "share of the new weights in the target networks per update"),
    _flag("actor_lr", number(0, open_low=True), "learning rate of the policy"),
    _flag("critic_lr", number(0, open_low=True), "learning rate of the critics"),
    _flag("hiddens", widths, "widths of the hidden layers", many=True),
    _flag("alpha_lr", number(0), "learning rate of the temperature; 0 leaves it as it is"),
    _flag("initial_alpha", number(0, open_low=True), "temperature at the start"),
    _flag(
        "target_entropy",
        number_or("auto"),
        "entropy that the temperature aims at; auto is minus the action's size, of n discrete actions .98 log n",
    ),
    _flag("actor_l2", number(0), "weight of an L2 term on the policy's weights"),
    _flag("critic_l2", number(0), "weight of an L2 term on the critics' weights"),
    _flag("huber_delta", number_or("none"), "TD error from which on the critics' loss is linear; none: never"),
    _flag("exploration", choice("Gaussian", "OrnsteinUhlenbeck"), "noise on actions while training"),
    _flag("exploration_sigma", number(0), "its standard deviation per step, for actions in [-1, 1]"),
    _flag("exploration_theta", number(0, 1), "share of Ornstein-Uhlenbeck noise that is lost per step"),
    _flag("policy_delay", whole(1), "updates of the critics per update of the policy"),
    _flag("target_policy_noise", number(0), "standard deviation of the noise on the target policy"),
    _flag("target_noise_clip", number(0), "bound of that noise"),
)


def trainer_defaults(given: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """The settings of an algorithm where no flag says another.

    Args:
        given: Flags and values that were given.
        trainer: The algorithm.

    Raises:
        UsageError: A flag of another algorithm, or of another kind of exploration.
    """
    own = TRAINER_DEFAULTS[trainer]
    for flag in TRAINER_FLAGS:
        if flag.name in given and flag.name not in own:
            having = " and ".join(name for name, defaults in TRAINER_DEFAULTS.items() if flag.name in defaults)
            raise UsageError(f"--{flag.name} is a setting of {having}; {trainer} does not have it")
    kind = given.get("exploration", own.get("exploration"))
    if "exploration_theta" in given and kind == "Gaussian":
        raise UsageError("--exploration_theta needs --exploration OrnsteinUhlenbeck")
    if kind == own.get("exploration"):
        return dict(own)
    others = (d["exploration_sigma"] for d in TRAINER_DEFAULTS.values() if d.get("exploration") == kind)
    return own | {"exploration_sigma": next(others)}
