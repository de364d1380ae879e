"""What the flags about replay mean, the original work's included: one replay method and its arguments."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from interreplay.commandline import UsageError
from interreplay.credit import CreditBoth
from interreplay.selection import Prioritized

# Flags that become arguments of the replay method or of its Prioritized selector.
BUFFER_ARGUMENTS = {"kneighbors": "k", "mixup_alpha": "alpha", "prob_interpolation": "prob_interpolation"}
PRIORITY_ARGUMENTS = {f"prioritized_replay_{name}": name for name in ("alpha", "beta", "eps")}
# Arguments of replay methods that are objects or belong to the whole run, and the flag that says them.
ELSEWHERE = {
    "capacity": "--buffer_size",
    "n_step": "--n_step",
    "gamma": "--gamma",
    "seed": "--seed",
    "device": "--device",
}
ELSEWHERE |= {
    "selector": "--prioritized_replay",
    "credit": "--interp_prio_update",
    "termination_fn": "the Python interface",
    "compute_reward": "the environment",
    "compute_terminated": "the environment",
    "neighborhood": "the Python interface",
    "blend": "the Python interface",
}
# Flags that choose a method that blends.
_NAMING = ("knn_baseline", "mixup_interpolation")
CHOOSING_FLAGS = ("custom_replay_buffer", *_NAMING)
REPLAY_FLAGS = {
    *CHOOSING_FLAGS,
    *BUFFER_ARGUMENTS,
    *PRIORITY_ARGUMENTS,
    "buffer",
    "buffer_arg",
    "prioritized_replay",
    "interp_prio_update",
}


def replay_for(given: Mapping[str, Any], catalogue: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Translates the flags about replay, the original work's included.

    Args:
        given: Flags and values that were given.
        catalogue: The replay methods by name.

    Returns:
        ``buffer`` (a name in ``catalogue``), ``buffer_args``, ``prioritized`` (arguments of the selector, or None)
        and ``credit_both``.

    Raises:
        UsageError: Flags that contradict each other, an unknown replay method or argument.
    """
    name = _buffer_name(given, catalogue)
    parameters = list(inspect.signature(catalogue[name]).parameters)
    arguments: dict[str, Any] = {}
    for flag, (argument, value) in _named_arguments(given):
        _check_argument(flag, name, argument, parameters)
        if argument in arguments and arguments[argument] != value:
            raise UsageError(f"{flag} {value} contradicts {argument}={arguments[argument]}; give one of them")
        arguments[argument] = value
    priorities = {argument: given[flag] for flag, argument in PRIORITY_ARGUMENTS.items() if flag in given}
    prioritized = bool(given.get("prioritized_replay"))
    if priorities and not (prioritized or name == "PER"):
        raise UsageError(f"--prioritized_replay_{next(iter(priorities))} needs --prioritized_replay")
    if given.get("interp_prio_update") and (not prioritized or "credit" not in parameters):
        raise UsageError(
            "--interp_prio_update needs --prioritized_replay and a replay method that blends, such as NMER"
        )
    if name == "PER":
        arguments |= priorities
    elif prioritized and "selector" not in parameters:
        raise UsageError(f"{name} selects in its own way and cannot be combined with --prioritized_replay")
    selector = priorities if prioritized and name != "PER" else None
    credit_both = bool(given.get("interp_prio_update"))
    return {"buffer": name, "buffer_args": arguments, "prioritized": selector, "credit_both": credit_both}


def replay_arguments(settings: SimpleNamespace) -> dict[str, Any]:
    """The replay method's arguments, with parts in place of their names."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = Prioritized(**settings.prioritized)
    if settings.credit_both:
        arguments["credit"] = CreditBoth()
    return arguments


def _buffer_name(given: Mapping[str, Any], catalogue: Mapping[str, Any]) -> str:
    blending = next((flag for flag in CHOOSING_FLAGS if given.get(flag)), None)
    if given.get("custom_replay_buffer") is False and blending:
        raise UsageError(f"--custom_replay_buffer False contradicts --{blending}; give one of them")
    stock = "PER" if given.get("prioritized_replay") else "Uniform"
    if "buffer" not in given:
        return "NMER" if blending else stock
    name = given["buffer"]
    if name not in catalogue:
        raise UsageError(f"unknown buffer {name!r}; {accepted_names(name, catalogue)}")
    named = next((flag for flag in _NAMING if given.get(flag)), None)
    if named and name != "NMER" or given.get("custom_replay_buffer") is False and name != stock:
        flag = f"--{named}" if named else "--custom_replay_buffer False"
        raise UsageError(
            f"--buffer {name} contradicts {flag}, which means {'NMER' if named else stock}; give one of them"
        )
    return name


def _named_arguments(given: Mapping[str, Any]) -> list[tuple[str, tuple[str, Any]]]:
    short = [(f"--{flag}", (name, given[flag])) for flag, name in BUFFER_ARGUMENTS.items() if flag in given]
    return [("--buffer_arg", pair) for pair in given.get("buffer_arg", ())] + short


def _check_argument(flag: str, name: str, argument: str, parameters: Iterable[str]) -> None:
    if argument in ELSEWHERE:
        raise UsageError(f"{flag} {argument} is said by {ELSEWHERE[argument]}")
    accepted = [parameter for parameter in parameters if parameter not in ELSEWHERE]
    if argument not in accepted:
        raise UsageError(f"{flag}: {name} takes no argument {argument!r}; {accepted_names(argument, accepted)}")


def accepted_names(word: str, names: Iterable[str]) -> str:
    """Half a sentence for error messages: the nearest name, and all of them.

    Args:
        word: What was given.
        names: What would be accepted.
    """
    names = list(names)
    close = difflib.get_close_matches(word.lower(), [name.lower() for name in names], n=1, cutoff=0.5)
    hint = next((f"did you mean {name}? " for name in names if close and name.lower() == close[0]), "")
    return hint + f"accepted: {', '.join(names) or 'none'}"
