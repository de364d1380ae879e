"""From the flags of a run to its settings: defaults, presets, and what a resumed run may change."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from interreplay.environments.lookup import find_environment
from interreplay.environments.relabeled import wrapper_of
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.algorithm_flags import ALGORITHM_FLAGS, RATES, algorithm_settings
from interreplay.experiments.flags.config_files import completed
from interreplay.experiments.flags.offline_flags import offline_settings, updates_resumed
from interreplay.experiments.flags.original_flags import REMOVED, RENAMED
from interreplay.experiments.flags.reading import FlagParser
from interreplay.experiments.flags.replay_flags import (
    argument_hint,
    check_rows,
    names_method,
    replay_for,
    unroll_replay_for,
)
from interreplay.experiments.flags.run_flags import (
    ALIASES,
    CATALOGUE,
    CHANGEABLE,
    COMMON,
    DEFAULTS,
    FLAGS,
    GROUPS,
    INVOCATION,
    METHOD,
    by_name,
    with_scope,
)
from interreplay.learning.algorithms_table import ALGORITHMS, is_algorithm


class RunSettings(SimpleNamespace):
    """Every setting of a run, resolved and read-only, with plain values only; ``vars`` of it is ready for JSON."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings of a run are read-only: cannot set {name} to {value!r}; use replaced()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings of a run are read-only: cannot delete {name}")

    def replaced(self, **changes: Any) -> RunSettings:
        """Return a copy with some settings replaced or added."""
        return RunSettings(**vars(self) | changes)


def make_parser() -> FlagParser:
    """Return the parser of the whole command line."""
    return FlagParser(
        GROUPS,
        REMOVED,
        RENAMED,
        completed,
        COMMON,
        method_hint,
        usage="%(prog)s [--config FILE] [KEY=VALUE ...] [FLAGS]",
        description="Train an RLlib agent with a replay method. The words of a flag are joined by - or _.",
    )


def method_hint(name: str, value: str, given: Mapping[str, Any]) -> str:
    """Return how to set an argument of the chosen replay method that was given as a flag, "" for other words."""
    try:
        if not names_method(given) and (method := preset_for(given).buffer):
            given = {**given, "buffer": method}
        return argument_hint(name, value, given, CATALOGUE)
    except (UsageError, ValueError):
        return ""


def settings_for(given: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a new run: the defaults, then the preset's settings, then the given ones.

    Args:
        given: Flags and values as `FlagParser.given` returns them.

    Raises:
        UsageError: Values that do not fit each other, or unknown names.
    """
    given = {ALIASES.get(name, name): value for name, value in given.items()}
    trainer = given.get("trainer", DEFAULTS["trainer"])
    if not is_algorithm(trainer):
        raise UsageError(f"unknown trainer {trainer!r}; {accepted_names(trainer, ALGORITHMS)}, or module:Class")
    row = ALGORITHMS[trainer]
    check_rows(given.keys(), trainer)
    preset = preset_for(given)
    chosen = tuned_for(given) | {name: value for name, value in given.items() if name not in METHOD}
    own = algorithm_settings({name: chosen[name] for name in ALGORITHM_FLAGS.keys() & chosen.keys()}, trainer)
    settings = default_settings(trainer) | own
    settings |= {name: value for name, value in chosen.items() if name in settings}
    settings |= {"preset": preset.name, "output_dir": str(settings["output_dir"])}
    settings |= offline_settings(given.keys(), settings, trainer)
    presets.check_needs(preset, settings)
    buffer, buffer_args = presets.method_of(preset, trainer)
    if row.unrolls:
        replay = {name: value for name, value in given.items() if name in METHOD}
        settings |= unroll_replay_for(chosen | replay, trainer, METHOD, buffer, buffer_args)
    else:
        settings |= replay_for(given, CATALOGUE, buffer, buffer_args)
    if settings["relabel"]:
        settings["wrapper"] = [*settings["wrapper"], wrapper_of(settings["relabel"])]
    settings = plain(settings)
    try:
        row.settings(**{name: settings[name] for name in row.defaults})
    except ValueError as error:
        raise UsageError(f"--{error}") from None
    if not row.unrolls and settings["buffer_size"] < settings["train_batch_size"]:
        raise UsageError(
            f"--buffer_size {settings['buffer_size']} is smaller than one batch; "
            f"expected at least --train_batch_size, {settings['train_batch_size']}"
        )
    return RunSettings(**settings)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as JSON would return them: tuples become lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def default_settings(trainer: str) -> dict[str, Any]:
    """Return the default settings of a run of an algorithm, without those of the replay method."""
    elsewhere = METHOD | INVOCATION | ALGORITHM_FLAGS.keys()
    row = ALGORITHMS[trainer]
    found = {name: value for name, value in DEFAULTS.items() if name not in elsewhere}
    return {**found, **row.defaults, **row.of_run}


def preset_for(given: Mapping[str, Any]) -> presets.Preset:
    """Return the preset that was given, or the environment's own."""
    if "preset" in given:
        return presets.load(given["preset"])
    return presets.automatic(*(given.get(name, DEFAULTS[name]) for name in ("env", "trainer")))


def tuned_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset's settings that no flag overrides.

    Args:
        given: Flags and values that were given.

    Raises:
        UsageError: The preset contains something that no flag accepts.
    """
    preset = preset_for(given)
    found = by_name(preset.settings(*(given.get(name, DEFAULTS[name]) for name in ("trainer", "env"))))
    refused = with_scope("method", "invocation") | {"trainer", "env", "preset"}
    accepted = {name: flag.type for name, flag in FLAGS.items() if name not in refused}
    return presets.converted(preset.name, presets.fitting(found, given.keys()), accepted)


def preset_told(given: Mapping[str, Any], settings: SimpleNamespace | None = None) -> str:
    """Return a line about the defaults that a preset changed, "" if it changed none.

    Args:
        given: Flags and values that were given.
        settings: The settings that they resolve to; resolved here if None.
    """
    tuned = vars(settings_for(given) if settings is None else settings)
    usual = plain(default_settings(given.get("trainer", DEFAULTS["trainer"])))
    changed = {name: value for name, value in tuned_for(given).items() if usual.get(name) != tuned[name]}
    source = f"preset {given['preset']}" if "preset" in given else "defaults for this environment"
    return f"{source}: {presets.shown(changed)}" if changed else ""


def settings_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> RunSettings:
    """Return the settings of a resumed run: the checkpoint's, with the changes that a running job supports.

    Args:
        saved: The settings in the checkpoint.
        given: Flags and values that were given next to ``--resume``.

    Raises:
        UsageError: A flag differs from the checkpoint and cannot be changed.
    """
    trainer = saved.get("trainer", DEFAULTS["trainer"])
    saved = default_settings(trainer) | by_name(saved)
    asked = replay_resumed(saved, given) if METHOD & given.keys() else {}
    asked |= {name: value for name, value in given.items() if name not in METHOD}
    if "env" in asked:
        asked["env"] = find_environment(asked["env"], saved["env_args"]).name
    asked = updates_resumed(saved, plain(asked))
    algorithm_settings({name: asked[name] for name in RATES & asked.keys()}, trainer)
    if asked.get("device") == "auto":  # keep the checkpoint's
        del asked["device"]
    for name in sorted(asked.keys() - CHANGEABLE - INVOCATION - RATES):
        if asked[name] != saved.get(name):
            raise UsageError(
                f"the checkpoint was made with {name} {saved.get(name)}, not {asked[name]}; leave the flag out"
                " (a resumed run may change no learning settings except learning rates)"
            )
    changes = {name: asked[name] for name in (CHANGEABLE | RATES) & asked.keys() - {"output_dir"}}
    return RunSettings(**saved | changes)


def replay_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the replay settings of flags next to ``--resume``; the checkpoint's where no flag is given."""
    trainer = saved.get("trainer", DEFAULTS["trainer"])
    if ALGORITHMS[trainer].unrolls:
        return unroll_replay_for(given, trainer, METHOD, saved["buffer"], saved["buffer_args"])
    asked = replay_for(given, CATALOGUE, saved["buffer"])
    asked["buffer_args"] = saved["buffer_args"] | asked["buffer_args"]
    if "prioritized_replay" not in given:
        asked["prioritized"] = saved["prioritized"]
    if "interp_prio_update" not in given:
        asked["credit_both"] = saved["credit_both"]
    return asked
