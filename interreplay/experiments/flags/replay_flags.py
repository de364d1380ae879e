"""The replay method of a run: flags that name it and its parts, and the arguments that other flags set."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from interreplay.buffer.catalogue import OF_PARTS, methods, part_class, resolve
from interreplay.errors import UsageError, accepted_names
from interreplay.experience import ModelBased
from interreplay.experiments.flags.offline_flags import MODEL_BASED
from interreplay.experiments.flags.original_flags import (
    BLENDS,
    BUFFER_ARGUMENTS,
    CHOOSING_FLAGS,
    GAUSSIAN_PROCESS_NAMES,
    METHODS,
    ORIGINAL,
    PRIORITY_ARGUMENTS,
    gaussian_process_arguments,
)
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import assignment, drop_settings, select_settings, split
from interreplay.learning.algorithms_table import ALGORITHMS, FRESH, MIX, get_built_in
from interreplay.learning.setting_fields import json_or_python
from interreplay.selection.credit import InterpolatedPriority
from interreplay.unrolls import schema
from interreplay.unrolls.mix_settings import STANDARD

SET_BY_FLAGS = {
    "capacity": "--buffer_size",
    "n_step": "--n_step",
    "gamma": "--gamma",
    "seed": "--seed",
    "device": "--device",
    "selector": "--selector, or --prioritized_replay,",
    "credit": "--interp_prio_update",
    "score": "the algorithm, which scores rows itself,",
    "compute_reward": "the environment",
    "compute_terminated": "the environment",
    "neighborhood": "--neighborhood",
    "synthesizer": "--synthesizer",
    "blend": "--synthesizer",
}
"""Arguments of replay methods that are objects or belong to the whole run, and what sets them."""
OF_ROWS: dict[str, Any] = {
    "buffer_size": 0,
    "learning_starts": 0,
    "updates_per_step": 0.0,
    "n_step": 1,
    "on_manifold_rows": 0,
    "episode_table": False,
    "scale_rewards": False,
}
"""Flags about replayed transitions, and their values in a run that learns from unrolls."""

CATALOGUE: dict[str, Callable[..., Any]] = methods() | {MODEL_BASED: ModelBased}
"""Replay methods by name."""


def read_part(text: str) -> dict[str, Any]:
    """Read ``module:Class name=value ...``, or an equivalent mapping, into ``{"type": "module:Class", ...}``."""
    if text.lstrip().startswith("{"):
        try:
            value = json_or_python(text)
            if "type" not in value:  # a study file's {name: {arguments}}
                ((name, arguments),) = value.items()
                value = {"type": name, **(arguments or {})}
            return value
        except (ValueError, TypeError, AttributeError):
            raise argparse.ArgumentTypeError(f"must be a name and its arguments, got {text}") from None
    name, *words = split(text) or [""]
    if not name or "=" in name:
        raise argparse.ArgumentTypeError(f"must begin with a name such as my_parts:Recent, got {text!r}")
    return {"type": name} | dict(map(assignment, words))


def _part_flag(name: str, purpose: str) -> Flag:
    text = f"{purpose}: module:Class of your own, or one of this package's, with its arguments"
    return Flag(name, read_part, None, text, many=True, scope="method")


PART_FLAGS = (
    _part_flag("selector", "part that draws the anchors"),
    _part_flag("neighborhood", "part that finds the rows to blend anchors with"),
    _part_flag("synthesizer", "part that makes the batch"),
)
PARTS = tuple(flag.name for flag in PART_FLAGS)


def format_argument(value: Any) -> Any:
    """Return an argument of a replay method as lines and tables show it: a part as ``Recent(share=0.2)``."""
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    arguments = [f"{name}={item}" for name, item in drop_settings(value, ["type"]).items()]
    return f"{shorten_name(str(value['type']))}({','.join(arguments)})".removesuffix("()")


def format_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a replay method, each as `format_argument` shows it."""
    return {name: format_argument(value) for name, value in arguments.items()}


def shorten_name(name: str) -> str:
    """Return a buffer's or a part's name without its module."""
    return name.rpartition(":")[2]


def translate_replay_flags(
    given: Mapping[str, Any], buffer: str | None = None, buffer_args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Translate the flags about replay, including those of the original work.

    Args:
        given: Flags and values that were given.
        buffer: The method to use if no flag names one, such as a preset's; None for the default.
        buffer_args: Arguments of `buffer` that flags do not replace.

    Returns:
        ``buffer`` (a name in `CATALOGUE`), ``buffer_args``, ``prioritized`` (arguments of the selector, or None)
        and ``credit_both``.
    """
    if buffer is not None and not names_method(given):
        given = {**given, "buffer": buffer}
    name = get_method(given)
    parameters = list_method_arguments(name)
    arguments = _part_arguments(given, name, parameters)
    for flag, argument, value in _find_named_arguments(given):
        _check_argument(flag, name, argument, parameters)
        if argument in arguments and arguments[argument] != value:
            shown = str(value)
            if flag == "--buffer_arg":
                shown = f"{argument}={value}"
            raise UsageError(f"{flag} {shown} contradicts {argument}={arguments[argument]}; give one of them")
        arguments[argument] = value
    prioritized = bool(given.get("prioritized_replay"))
    credit_both = bool(given.get("interp_prio_update"))
    priorities = _priorities(given, prioritized or name == "PER")
    if credit_both and (not prioritized or "credit" not in parameters):
        raise UsageError(
            "--interp_prio_update needs --prioritized_replay and a replay method that blends, such as NMER"
        )
    if name == "PER":
        arguments |= priorities
        prioritized = False
    elif prioritized and "selector" not in parameters:
        raise UsageError(f"{name} has its own selection and cannot be combined with --prioritized_replay")
    if name == buffer and buffer_args:
        for argument in buffer_args:
            _check_argument("--buffer_arg", name, argument, parameters)
        arguments = {**buffer_args, **arguments}
    found = {"buffer": name, "buffer_args": arguments, "prioritized": None, "credit_both": credit_both}
    if prioritized:
        found["prioritized"] = priorities
    return found


def translate_unroll_flags(
    given: Mapping[str, Any],
    trainer: str,
    buffer: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Translate the flags about the replay of unrolls, those of a preset included, like `translate_replay_flags`.

    If no flag names one, `buffer` is used, `FRESH` or `MIX` with its `arguments`; None for the algorithm's own.
    """
    of_rows = given.keys() & {*PARTS, *ORIGINAL["replay"], *GAUSSIAN_PROCESS_NAMES, *OF_ROWS}
    if of_rows:
        raise UsageError(
            f"--{min(of_rows)} applies to replayed transitions; {trainer} learns from unrolls, and --replay_parameters "
            "sets which of them it replays"
        )
    if buffer is None:
        buffer = ALGORITHMS[trainer].buffer
        arguments = ALGORITHMS[trainer].buffer_args
    name = given.get("buffer", buffer)
    found = dict(given.get("buffer_arg", ()))
    if "replay_parameters" in given:
        name = given.get("buffer", MIX)
        found["parameters"] = given["replay_parameters"]
    if name not in (FRESH, MIX):
        raise UsageError(f"--buffer {name}: {trainer} learns from unrolls; {accepted_names(name, [FRESH, MIX])}")
    if not found and name == buffer:
        found = dict(arguments or {})
    accepted = {MIX: ["parameters"], FRESH: []}[name]
    for argument in found:
        if argument not in accepted:
            hint = accepted_names(argument, accepted)
            raise UsageError(f"--buffer_arg: {name} takes no argument {argument!r}; {hint}; see --replay_parameters")
    if name == MIX and get_built_in(trainer) == "A3C":
        flag = "--replay_parameters" if "replay_parameters" in given else f"--buffer {MIX}"
        raise UsageError(f"{flag}: A3C replays nothing; expected IMPALA, CLEAR or LASER for a mix of unrolls")
    if name == MIX:
        parameters = found.get("parameters", list(STANDARD))
        found = {"parameters": schema.read(parameters, given.get("train_batch_size"))}
    return {"buffer": name, "buffer_args": found, "prioritized": None, "credit_both": False} | OF_ROWS


def names_method(given: Mapping[str, Any]) -> bool:
    """Return whether flags name a replay method."""
    chosen = any(given.get(name) for name in ("buffer", *CHOOSING_FLAGS))
    return chosen or given.get("custom_replay_buffer") is False


def describe_source(settings: SimpleNamespace) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a run's source of rows: a method, or its mix with recorded rows."""
    arguments = dict(settings.buffer_args)
    if settings.prioritized is not None:
        arguments["selector"] = {"type": "Prioritized", **settings.prioritized}  # each source creates its own
    if settings.credit_both:
        arguments["credit"] = InterpolatedPriority()
    online = {"capacity": settings.buffer_size, **arguments}
    if settings.offline_data is None:
        return settings.buffer, online
    recorded = {"data": settings.offline_data, "where": settings.offline_where, "relabel": settings.relabel}
    if settings.buffer == MODEL_BASED:
        return MODEL_BASED, online | {"recorded": recorded}
    recorded |= {"method": settings.buffer, "arguments": arguments}
    if settings.updates is not None:
        return "Offline", recorded
    share = (settings.offline_share, settings.offline_share_end)
    if settings.offline_share_end is None:
        share = (settings.offline_share, settings.offline_share)
    sources = {"online": {"type": settings.buffer, **online}, "offline": {"type": "Offline", **recorded}}
    return "Mix", {"sources": sources, "shares": {"offline": share}}


def find_methods(argument: str) -> list[str]:
    """Return the replay methods that have an argument."""
    if argument in SET_BY_FLAGS:
        return []
    return [name for name in CATALOGUE if argument in list_method_arguments(name)]


def get_method(given: Mapping[str, Any]) -> str:
    """Return the replay method that flags name, or the default one."""
    chosen = [name for name in CHOOSING_FLAGS if given.get(name)]
    named = [name for name in METHODS if given.get(name)]
    stock = "Uniform"
    if not given.keys().isdisjoint(PARTS):
        stock = OF_PARTS
    elif given.get("prioritized_replay"):
        stock = "PER"
    name = stock
    choice = ""
    if given.get("buffer"):
        name = given["buffer"]
        choice = f"--buffer {name}"
    elif chosen:
        name = METHODS.get([*named, ""][0], "NMER")
        choice = f"--{chosen[0]}"
    parameters = list_method_arguments(name)
    if given.get("custom_replay_buffer") is False and (chosen or name != stock):
        raise UsageError(f"--custom_replay_buffer False, which means {stock}, contradicts {choice}; give one of them")
    for flag in named:
        if METHODS[flag] != name:
            raise UsageError(f"{choice} contradicts --{flag}, which means {METHODS[flag]}; give one of them")
    for flag in BLENDS:
        if flag in chosen and not {"alpha", "prob_interpolation"} <= {*parameters}:
            raise UsageError(f"{choice} contradicts --{flag}: {name} does not blend by mixup; give one of them")
    return name


def list_method_arguments(name: str) -> list[str]:
    """Return the names of a replay method's arguments."""
    method = CATALOGUE.get(name)
    if method is None:
        if name != OF_PARTS and ":" not in name:
            raise UsageError(f"unknown buffer {name!r}; {accepted_names(name, CATALOGUE)}")
        method = resolve(name)
    return list(inspect.signature(method).parameters)


def _part_arguments(given: Mapping[str, Any], name: str, parameters: Collection[str]) -> dict[str, Any]:
    """Return the arguments that --selector, --neighborhood and --synthesizer set."""
    found: dict[str, Any] = {}
    for flag in PARTS:
        if flag not in given:
            continue
        argument = "blend" if flag == "synthesizer" and flag not in parameters else flag
        if argument not in parameters:
            raise UsageError(
                f"--{flag} {given[flag]['type']}: {name} has its own {flag}; --buffer {OF_PARTS}, or no --buffer, "
                "combines parts"
            )
        part_class(argument, given[flag])
        found[argument] = given[flag]
    if "selector" in found and given.get("prioritized_replay"):
        raise UsageError(f"--selector {given['selector']['type']} contradicts --prioritized_replay; give one of them")
    return found


def _find_named_arguments(given: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return each flag that sets one argument of the replay method, with the argument and its value."""
    found = []
    for argument, value in given.get("buffer_arg", ()):
        found.append(("--buffer_arg", argument, value))
    for flag, argument in BUFFER_ARGUMENTS.items():
        if flag in given:
            found.append((f"--{flag}", argument, given[flag]))
    if given.get("smote_interpolation"):  # Beta(1, 1) is U(0, 1)
        found.append(("--smote_interpolation", "alpha", 1.0))
    return found + gaussian_process_arguments(select_settings(given, GAUSSIAN_PROCESS_NAMES))


def _priorities(given: Mapping[str, Any], prioritized: bool) -> dict[str, Any]:
    """Return the arguments of the selector `Prioritized`."""
    flags = select_settings(given, (*PRIORITY_ARGUMENTS, "use_importance_sampling"))
    if flags and not prioritized:
        raise UsageError(f"--{min(flags)} needs --prioritized_replay")
    priorities = {}
    for flag, argument in PRIORITY_ARGUMENTS.items():
        if flag in given:
            priorities[argument] = given[flag]
    if given.get("use_importance_sampling", True):
        return priorities
    if priorities.get("beta"):
        raise UsageError(f"--prioritized_replay_beta {priorities['beta']} contradicts --use_importance_sampling False")
    return priorities | {"beta": 0.0, "final_beta": 0.0}


def _check_argument(flag: str, name: str, argument: str, parameters: Iterable[str]) -> None:
    if argument in SET_BY_FLAGS:
        raise UsageError(f"use {SET_BY_FLAGS[argument]} instead of {flag} {argument}")
    if argument not in parameters:
        accepted = drop_settings(dict.fromkeys(parameters), SET_BY_FLAGS)
        raise UsageError(f"{flag}: {name} takes no argument {argument!r}; {accepted_names(argument, accepted)}")


def list_buffers() -> str:
    """Return one line per replay method: its name and the first line of its documentation."""
    width = max(map(len, CATALOGUE))
    lines = []
    for name, method in CATALOGUE.items():
        summary = (inspect.getdoc(method) or "").split("\n")[0]
        lines.append(f"{name:<{width}}  {summary}")
    return "\n".join(lines)
