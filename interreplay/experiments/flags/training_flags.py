"""Resolve the flags of a run to its settings: defaults, presets, and changes of resumed runs."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from interreplay.environments.lookup import Environment, find_environment
from interreplay.environments.relabeled import WRAPPER, Relabel
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.flags import presets, replay_flags, run_flags
from interreplay.experiments.flags.algorithm_flags import ALGORITHM_FLAGS, CHANGEABLE_SETTINGS, algorithm_settings
from interreplay.experiments.flags.config_files import merge_config
from interreplay.experiments.flags.offline_flags import MODEL_BASED, offline_settings, updates_resumed
from interreplay.experiments.flags.original_flags import INSTEAD
from interreplay.experiments.flags.reading import FlagParser
from interreplay.experiments.flags.values import drop_settings, select_settings
from interreplay.learning.actor_critic.compilation import can_compile
from interreplay.learning.algorithms_table import ALGORITHMS, UNROLLS, is_algorithm

DEPENDENT = {
    "exploration": ("exploration_sigma", "exploration_theta", "initial_epsilon", "final_epsilon", "epsilon_steps"),
    "distribution": ("atoms", "value_range", "kappa"),
}
"""Settings of presets that do not apply if a flag sets another one: their scale or their effect depends on it."""


class RunSettings(SimpleNamespace):
    """Every setting of a run, resolved and read-only, with plain values only, which JSON can represent."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings of a run are read-only: cannot set {name} to {value!r}; use replace()")

    def replace(self, **changes: Any) -> RunSettings:
        """Return a copy with some settings replaced or added."""
        return RunSettings(**vars(self) | changes)


def make_parser() -> FlagParser:
    """Return the parser of the whole command line."""
    return FlagParser(
        run_flags.GROUPS,
        INSTEAD,
        merge_config,
        common=run_flags.COMMON,
        hint=method_hint,
        usage="%(prog)s [--config FILE] [KEY=VALUE ...] [FLAGS]",
        description="Train an RLlib agent with a replay method. The words of a flag are joined by - or _.",
    )


def method_hint(name: str, value: str, given: Mapping[str, Any]) -> str:
    """Return how to set an argument of a replay method that was given as a flag ``--name value``, or ""."""
    word = f"--buffer_arg {name}={value or 'VALUE'}"
    try:
        if not replay_flags.names_method(given) and (method := get_preset(given).buffer):
            given = {**given, "buffer": method}
        method = replay_flags.get_method(given)
        if name in replay_flags.list_method_arguments(method) and name not in replay_flags.SET_BY_FLAGS:
            return f"use {word} to set {name} of {replay_flags.shorten_name(method)}"
    except (UsageError, ValueError):
        return ""
    if others := replay_flags.find_methods(name):
        return f"use {word} with {' or '.join(others)}, {replay_flags.shorten_name(method)} has no {name}"
    return ""


def resolve_settings(given: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a new run: the defaults, then the preset's settings, then those of `FlagParser.given`."""
    given = {run_flags.ALIASES.get(name, name): value for name, value in given.items()}
    trainer = given.get("trainer", run_flags.DEFAULTS["trainer"])
    if not is_algorithm(trainer):
        raise UsageError(f"unknown trainer {trainer!r}; {accepted_names(trainer, ALGORITHMS)}, or module:Class")
    row = ALGORITHMS[trainer]
    if "replay_parameters" in given and not row.unrolls:
        raise UsageError(
            f"--replay_parameters sets which unrolls {' and '.join(UNROLLS)} replay; {trainer} replays transitions, "
            "with the method that --buffer names"
        )
    preset = get_preset(given)
    chosen = get_preset_settings(given) | drop_settings(given, run_flags.METHOD)
    settings = default_settings(trainer) | algorithm_settings(chosen, trainer)
    settings |= select_settings(chosen, settings)
    settings["preset"] = preset.name
    if settings.get("torch_compile") and "torch_compile" not in given:  # of a preset
        settings["torch_compile"] = can_compile()
    settings |= offline_settings(given.keys(), settings, trainer)
    for flag in preset.needs:
        if settings.get(flag) is None:
            raise UsageError(f"preset {preset.name} needs --{flag}: {preset.about}")
    buffer = preset.buffer
    buffer_args: Mapping[str, Any] = preset.buffer_args
    if row.buffer_args and not buffer:
        buffer = row.buffer
        buffer_args = row.buffer_args
    if row.unrolls:
        settings |= replay_flags.translate_unroll_flags(
            chosen | select_settings(given, run_flags.METHOD), trainer, buffer, buffer_args
        )
    else:
        settings |= replay_flags.translate_replay_flags(given, buffer, buffer_args)
    if settings["offline_data"] is not None and settings["buffer"] == MODEL_BASED:
        for name in ("offline_share", "offline_share_end", "updates"):
            if name in given:
                raise UsageError(f"--{name}: {MODEL_BASED} adds the recorded rows to its real rows; leave it out")
    if settings["relabel"]:
        relabel = Relabel(settings["relabel"])
        wrapper = {"type": WRAPPER, "function": relabel.name, "source": relabel.digest}
        settings["wrapper"] = [*settings["wrapper"], wrapper]
    settings = from_json(settings)
    try:
        row.settings(**select_settings(settings, row.defaults))
    except ValueError as error:
        raise UsageError(f"--{error}") from None
    if not row.unrolls and settings["buffer_size"] < settings["train_batch_size"]:
        raise UsageError(
            f"--buffer_size {settings['buffer_size']} is smaller than one batch; "
            f"expected at least --train_batch_size, {settings['train_batch_size']}"
        )
    return RunSettings(**settings)


_find = functools.cache(find_environment)


def make_environment(settings: SimpleNamespace) -> Environment:
    """Return the environment of a run; environments without arguments and wrappers are made only once."""
    if settings.env_args or settings.wrapper or settings.frame_stack > 1:
        return find_environment(settings.env, settings.env_args, settings.wrapper, settings.frame_stack)
    return _find(settings.env)


def from_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are read from JSON: tuples become lists, and paths strings."""
    return json.loads(json.dumps(settings, default=str))


def default_settings(trainer: str) -> dict[str, Any]:
    """Return the default settings of a run of an algorithm, without those of the replay method."""
    row = ALGORITHMS[trainer]
    found = drop_settings(run_flags.DEFAULTS, run_flags.METHOD | run_flags.INVOCATION | ALGORITHM_FLAGS.keys())
    return {**found, **row.defaults, **row.of_run}


def get_preset(given: Mapping[str, Any]) -> presets.Preset:
    """Return the preset that was given, or the environment's own."""
    if given.get("preset") is not None:  # None in a study file
        return presets.load(given["preset"])
    given = {**run_flags.DEFAULTS, **given}
    return presets.find_automatic(given["env"], given["trainer"])


def get_preset_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset's settings that no flag overrides."""
    preset = get_preset(given)
    usual = {**run_flags.DEFAULTS, **given}
    found = run_flags.use_current_names(preset.settings(usual["trainer"], usual["env"]))
    found = drop_settings(found, given)
    for name, dependent in DEPENDENT.items():
        if name in given:
            found = drop_settings(found, dependent)
    excluded = run_flags.list_flags("method", "invocation") | {"trainer", "env", "preset"}
    return presets.convert_settings(preset.name, found, drop_settings(run_flags.FLAGS, excluded))


def preset_summary(given: Mapping[str, Any], settings: SimpleNamespace | None = None) -> str:
    """Return a line about the defaults that a preset changed, "" if it changed none."""
    tuned = vars(settings or resolve_settings(given))
    usual = from_json(default_settings(given.get("trainer", run_flags.DEFAULTS["trainer"])))
    changed = {}
    for name in get_preset_settings(given):
        if tuned[name] != usual.get(name):
            changed[name] = tuned[name]
    if not changed:
        return ""
    source = "defaults for this environment"
    if "preset" in given:
        source = f"preset {given['preset']}"
    return f"{source}: {presets.format_flags(changed)}"


def settings_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a resumed run: the checkpoint's, with changes by flags; reject other differences."""
    trainer = saved.get("trainer", run_flags.DEFAULTS["trainer"])
    saved = default_settings(trainer) | run_flags.use_current_names(saved)
    requested = drop_settings(given, run_flags.METHOD)
    if run_flags.METHOD & given.keys():
        requested |= replay_resumed(saved, given)
    if "env" in requested:
        requested["env"] = find_environment(requested["env"], saved["env_args"]).name
    requested = updates_resumed(saved, from_json(requested))
    algorithm_settings(select_settings(requested, CHANGEABLE_SETTINGS), trainer)
    if requested.get("device") == "auto":  # keep the checkpoint's
        del requested["device"]
    before = dict(saved)
    if saved["relabel"]:  # adds a wrapper
        before["wrapper"] = [wrapper for wrapper in saved["wrapper"] if wrapper["type"] != WRAPPER]
    changeable = run_flags.CHANGEABLE | CHANGEABLE_SETTINGS
    for name in sorted(requested.keys() - changeable - run_flags.INVOCATION):
        if requested[name] != before.get(name):
            raise UsageError(
                f"the checkpoint was made with {name} {before.get(name)}, not {requested[name]}; leave the flag out"
                " (a resumed run may change no learning settings except learning rates and torch_compile)"
            )
    return RunSettings(**saved | select_settings(requested, changeable - {"output_dir"}))


def replay_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the replay settings of flags next to ``--resume``; the checkpoint's settings if no flag is given."""
    trainer = saved.get("trainer", run_flags.DEFAULTS["trainer"])
    if ALGORITHMS[trainer].unrolls:
        return replay_flags.translate_unroll_flags(given, trainer, saved["buffer"], saved["buffer_args"])
    requested = replay_flags.translate_replay_flags(given, saved["buffer"])
    requested["buffer_args"] = saved["buffer_args"] | requested["buffer_args"]
    if "prioritized_replay" not in given:
        requested["prioritized"] = saved["prioritized"]
    if "interp_prio_update" not in given:
        requested["credit_both"] = saved["credit_both"]
    return requested
