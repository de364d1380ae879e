"""Check a user's part or replay buffer against the contract. ``--help`` explains the arguments."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.catalogue import OF_PARTS, make_buffer
from interreplay.diagnostics.contract import CHECKS, ContractError, Subject, title
from interreplay.environments.own_modules import import_user_class, locate_error
from interreplay.errors import InterreplayError, UsageError, exits_as_errors
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.experiments.flags.values import assignment
from interreplay.neighborhood import KNN, Neighborhood
from interreplay.part import Context
from interreplay.selection import Selector
from interreplay.synthesis import Mixup, Synthesizer
from interreplay.synthesis.coefficient import Beta

KINDS = {"selector": Selector, "neighborhood": Neighborhood, "synthesizer": Synthesizer}
"""Arguments of `ReplayBuffer` that a part can be, and their base classes."""
COMPLETED: dict[str, Callable[[], dict[str, Any]]] = {
    "selector": dict,
    "neighborhood": lambda: {"synthesizer": Mixup(Beta(0.75))},
    "synthesizer": lambda: {"neighborhood": KNN(k=3)},
}
"""Other parts of the buffer in which a part is checked, by the kind of the part."""
GOALS = {"achieved_goal": (2,), "desired_goal": (2,), "observation": (3,)}


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(
        description="Check a selector, a neighborhood, a synthesizer or a replay buffer of your own against the "
        "contract, with random transitions of 3 observation and 2 action dimensions. Prints one line per check.",
        epilog="The exit code is 0 if all checks pass, 1 if one fails and 2 if the class does not exist.",
    )
    parser.add_argument("name", metavar="MODULE:CLASS", help="the class, in the current folder or installed")
    parser.add_argument("arguments", nargs="*", type=assignment, metavar="NAME=VALUE", help="arguments of the class")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks; return the exit code, 1 when a check fails."""
    return make_parser().run(act, argv, stopped="stopped")


def act(given: argparse.Namespace) -> int:
    """Run the checks; return the exit code."""
    subject = make_subject(given.name, dict(given.arguments))
    failed = 0
    for check in CHECKS:
        reason = failure(functools.partial(check, subject))
        if reason is None:
            print(f"pass  {title(check)}", flush=True)
        else:
            failed += 1
            print(f"FAIL  {title(check)}: {reason}", flush=True)
    print(f"{given.name}: {len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


def failure(check: Callable[[], object]) -> str | None:
    """Return why a check fails, on one line, or None if it passes."""
    try:
        with exits_as_errors():
            check()
    except (ContractError, InterreplayError) as error:
        return " ".join(str(error).split())
    except Exception as error:  # whatever a user's code raises
        return " ".join(locate_error(error).split())
    return None


def make_subject(name: str, arguments: Mapping[str, Any]) -> Subject:
    """Return the subject of the checks of ``module:Class``, after creating one instance with the arguments."""
    found = import_user_class(name, (*KINDS.values(), ReplayBuffer), "class")
    kind = ""
    for part, base in KINDS.items():
        if issubclass(found, base):
            kind = part

    for argument in ("capacity", "seed"):
        if argument in arguments and not kind:
            raise UsageError(f"{argument}={arguments[argument]}: the checks set {argument}; leave it out")

    def make(capacity: int, seed: int | None) -> ReplayBuffer:
        if kind:
            parts = {kind: {"type": name, **arguments}} | COMPLETED[kind]()
            return make_buffer(OF_PARTS, {"seed": seed}, capacity=capacity, **parts)
        return make_buffer(name, {"seed": seed}, capacity=capacity, **arguments)

    def create(capacity: int, seed: int | None) -> ReplayBuffer:
        made = make(capacity, seed)
        made.connect(
            Context(
                compute_reward=lambda achieved, desired, info: -np.linalg.norm(achieved - desired, axis=-1),
                score=lambda rows, names: dict.fromkeys(names, rows.rewards.abs()),
            )
        )
        return made

    try:
        first = make(capacity=10, seed=0)
    except UsageError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from error
    if first.wants_goal_functions:  # checked before `connect`, which supplies them
        return Subject(create, rows={"obs_shape": GOALS})
    return Subject(create)
