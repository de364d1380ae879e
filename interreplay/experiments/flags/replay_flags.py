"""What the flags about replay mean, the original work's included: one replay method and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from interreplay.buffer.catalogue import OF_PARTS, resolve
from interreplay.credit import InterpolatedPriority
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.flags.gaussian_process_flags import gaussian_process_arguments
from interreplay.experiments.flags.part_flags import PARTS, part_arguments
from interreplay.learning.algorithms_table import ALGORITHMS, FRESH, MIX, UNROLLS
from interreplay.selection import Prioritized
from interreplay.unrolls import schema
from interreplay.unrolls.mix_settings import STANDARD

# Flags that become arguments of the replay method or of its Prioritized selector.
BUFFER_ARGUMENTS = {"kneighbors": "k", "mixup_alpha": "alpha", "prob_interpolation": "prob_interpolation"}
BUFFER_ARGUMENTS |= {"interp_decay_rate": "interp_decay"}
PRIORITY_ARGUMENTS = {f"prioritized_replay_{name}": name for name in ("alpha", "beta", "eps")}
# Arguments of replay methods that are objects or belong to the whole run, and the flag that says them.
SET_BY_FLAGS = {
    "capacity": "--buffer_size",
    "n_step": "--n_step",
    "gamma": "--gamma",
    "seed": "--seed",
    "device": "--device",
}
SET_BY_FLAGS |= {
    "selector": "--selector, or --prioritized_replay,",
    "credit": "--interp_prio_update",
    "score": "the algorithm, which scores rows itself,",
    "compute_reward": "the environment",
    "compute_terminated": "the environment",
    "neighborhood": "--neighborhood",
    "synthesizer": "--synthesizer",
    "blend": "--synthesizer",
}
# Flags that name a method, and flags that want one that blends by mixup: NMER, where none is named.
METHODS = {
    "knn_baseline": "NMER",
    "naive_mixup_baseline": "NaiveMixup",
    "ct_baseline": "ContinuousTransition",
    "s4rl_baseline": "S4RL",
    "noisy_replay_baseline": "Noise",
    "gaussian_process": "BIER",
    "gpytorch": "BIER",
}
BLENDS = ("mixup_interpolation", "smote_interpolation")
CHOOSING_FLAGS = ("custom_replay_buffer", *METHODS, *BLENDS)
OF_ROWS: dict[str, Any] = {
    "buffer_size": 0,
    "learning_starts": 0,
    "updates_per_step": 0.0,
    "n_step": 1,
    "on_manifold_rows": 0,
    "scale_rewards": False,
}
"""Flags of a run about replayed transitions, and the values that stand for nothing where there are none."""


def replay_for(given: Mapping[str, Any], catalogue: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Translate the flags about replay, the original work's included.

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
    parameters = list(inspect.signature(_recipe(name, catalogue)).parameters)
    arguments = part_arguments(given, name, parameters)
    for flag, (argument, value) in _named_arguments(given):
        _check_argument(flag, name, argument, parameters)
        if argument in arguments and arguments[argument] != value:
            raise UsageError(f"{flag} {value} contradicts {argument}={arguments[argument]}; give one of them")
        arguments[argument] = value
    prioritized = bool(given.get("prioritized_replay"))
    priorities = _priorities(given, prioritized or name == "PER")
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


def check_rows(given: Mapping[str, Any], trainer: str) -> None:
    """Refuse a replay of unrolls for an algorithm that learns from transitions.

    Raises:
        UsageError: Naming those that replay unrolls.
    """
    if "replay_parameters" in given and not ALGORITHMS[trainer].unrolls:
        raise UsageError(
            f"--replay_parameters says which unrolls {' and '.join(UNROLLS)} replay; {trainer} replays transitions, "
            "by the method that --buffer names"
        )


def unroll_replay_for(
    given: Mapping[str, Any],
    trainer: str,
    method: Collection[str],
    buffer: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what flags say about the replay of unrolls, as `replay_for` does about that of transitions.

    Args:
        given: Flags and values that were given, by presets too.
        trainer: The algorithm.
        method: Flags about the replay method.
        buffer: `FRESH` or `MIX` where no flag says it; the algorithm's own for None.
        arguments: Those of the mix where no flag says them.

    Raises:
        UsageError: A flag about transitions, or a mix that there is not.
    """
    of_rows = given.keys() & {*method, *OF_ROWS} - {"buffer", "buffer_arg", "replay_parameters"}
    if of_rows:
        raise UsageError(
            f"--{min(of_rows)} is about replayed transitions; {trainer} learns from unrolls, and --replay_parameters "
            "says which of them it replays"
        )
    row = ALGORITHMS[trainer]
    buffer, arguments = (row.buffer, row.buffer_args) if buffer is None else (buffer, arguments or {})
    name = given.get("buffer", buffer)
    if name not in (FRESH, MIX):
        raise UsageError(f"--buffer {name}: {trainer} learns from unrolls; {accepted_names(name, [FRESH, MIX])}")
    said = dict(given.get("buffer_arg", ()))
    if "replay_parameters" in given:
        name, said = given.get("buffer", MIX), said | {"parameters": given["replay_parameters"]}
    found = said or (dict(arguments) if name == buffer else {})
    if name == MIX:
        found = {"parameters": _mix_parameters(found, given)}
    elif found:
        raise UsageError(f"--buffer_arg {min(found)}: {name} takes no arguments; --replay_parameters makes a mix")
    return {"buffer": name, "buffer_args": found, "prioritized": None, "credit_both": False} | OF_ROWS


def _mix_parameters(arguments: Mapping[str, Any], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources of a mix of unrolls; by default half fresh and half replayed.

    Raises:
        UsageError: They make no mix.
    """
    for name in arguments:
        if name != "parameters":
            raise UsageError(f"--buffer_arg: {MIX} takes no argument {name!r}; {accepted_names(name, ['parameters'])}")
    return schema.read(arguments.get("parameters", list(STANDARD)), given.get("train_batch_size"))


def names_method(given: Mapping[str, Any]) -> bool:
    """Return whether flags name a replay method."""
    chosen = any(given.get(name) for name in ("buffer", *CHOOSING_FLAGS))
    return chosen or given.get("custom_replay_buffer") is False


def replay_arguments(settings: SimpleNamespace) -> dict[str, Any]:
    """Return the replay method's arguments, with parts in place of their names."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = Prioritized(**settings.prioritized)
    if settings.credit_both:
        arguments["credit"] = InterpolatedPriority()
    return arguments


def _priorities(given: Mapping[str, Any], prioritized: bool) -> dict[str, Any]:
    """Return arguments of the selector `Prioritized`."""
    flags = [flag for flag in (*PRIORITY_ARGUMENTS, "use_importance_sampling") if flag in given]
    if flags and not prioritized:
        raise UsageError(f"--{flags[0]} needs --prioritized_replay")
    priorities = {argument: given[flag] for flag, argument in PRIORITY_ARGUMENTS.items() if flag in given}
    if given.get("use_importance_sampling", True):
        return priorities
    if priorities.get("beta"):
        raise UsageError(f"--prioritized_replay_beta {priorities['beta']} contradicts --use_importance_sampling False")
    return priorities | {"beta": 0.0, "final_beta": 0.0}


def _buffer_name(given: Mapping[str, Any], catalogue: Mapping[str, Callable[..., Any]]) -> str:
    chosen = [flag for flag in CHOOSING_FLAGS if given.get(flag)]
    named = [flag for flag in chosen if flag in METHODS]
    stock = OF_PARTS if any(part in given for part in PARTS) else "Uniform"
    stock = "PER" if given.get("prioritized_replay") and stock == "Uniform" else stock
    name = given.get("buffer") or (METHODS[named[0]] if named else "NMER" if chosen else stock)
    recipe = _recipe(name, catalogue)
    asked = f"--buffer {name}" if "buffer" in given else f"--{chosen[0]}" if chosen else ""
    if given.get("custom_replay_buffer") is False and (chosen or name != stock):
        raise UsageError(f"--custom_replay_buffer False, which means {stock}, contradicts {asked}; give one of them")
    for flag in named:
        if METHODS[flag] != name:
            raise UsageError(f"{asked} contradicts --{flag}, which means {METHODS[flag]}; give one of them")
    mixes = {"alpha", "prob_interpolation"} <= inspect.signature(recipe).parameters.keys()
    for flag in BLENDS:
        if flag in chosen and not mixes:
            raise UsageError(f"{asked} contradicts --{flag}: {name} blends nothing by mixup; give one of them")
    return name


def _recipe(name: str, catalogue: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    if name not in catalogue and name != OF_PARTS and ":" not in name:
        raise UsageError(f"unknown buffer {name!r}; {accepted_names(name, catalogue)}")
    return catalogue[name] if name in catalogue else resolve(name)


def _named_arguments(given: Mapping[str, Any]) -> list[tuple[str, tuple[str, Any]]]:
    short = [(f"--{flag}", (name, given[flag])) for flag, name in BUFFER_ARGUMENTS.items() if flag in given]
    if given.get("smote_interpolation"):  # Beta(1, 1) is U(0, 1)
        short.append(("--smote_interpolation", ("alpha", 1.0)))
    short += gaussian_process_arguments(given)
    return [("--buffer_arg", pair) for pair in given.get("buffer_arg", ())] + short


def _check_argument(flag: str, name: str, argument: str, parameters: Iterable[str]) -> None:
    if argument in SET_BY_FLAGS:
        raise UsageError(f"use {SET_BY_FLAGS[argument]} instead of {flag} {argument}")
    accepted = [parameter for parameter in parameters if parameter not in SET_BY_FLAGS]
    if argument not in accepted:
        raise UsageError(f"{flag}: {name} takes no argument {argument!r}; {accepted_names(argument, accepted)}")


def list_buffers(catalogue: Mapping[str, Any]) -> str:
    """Return the replay methods, a line each: name and what the first line of its documentation says."""
    width = max(map(len, catalogue))
    described = {name: (inspect.getdoc(method) or "").split("\n")[0] for name, method in catalogue.items()}
    return "\n".join(f"{name:<{width}}  {line}" for name, line in described.items())
