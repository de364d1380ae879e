"""From the flags that were given to the settings of a run: defaults, presets, and what a resumed run may change."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.algorithm_flags import ALGORITHM_FLAGS, RATES, algorithm_settings
from interreplay.experiments.flags.config_files import completed
from interreplay.experiments.flags.offline_flags import offline_settings, updates_resumed
from interreplay.experiments.flags.original_flags import REMOVED, RENAMED
from interreplay.experiments.flags.reading import FlagParser
from interreplay.experiments.flags.replay_flags import check_rows, names_method, replay_for, unroll_replay_for
from interreplay.experiments.flags.run_flags import (
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


def make_parser() -> FlagParser:
    """Return the parser of the whole command line."""
    return FlagParser(
        GROUPS,
        REMOVED,
        RENAMED,
        completed,
        COMMON,
        usage="%(prog)s [--config FILE] [KEY=VALUE ...] [FLAGS]",
        description="Train an RLlib agent with a replay method. Flags are accepted with - or _ between their words.",
    )


def settings_for(given: Mapping[str, Any]) -> SimpleNamespace:
    """Return the settings of a new run: defaults, a preset's, then what was given; plain values only, ready for JSON.

    Args:
        given: Flags and values as `FlagParser.given` returns them.

    Raises:
        UsageError: Values that do not fit each other, or name nothing.
    """
    given = by_name(given)
    trainer = given.get("trainer", DEFAULTS["trainer"])
    if not is_algorithm(trainer):
        raise UsageError(f"unknown trainer {trainer!r}; {accepted_names(trainer, ALGORITHMS)}, or module:Class")
    check_rows(given, trainer)
    preset, said = presets.with_method(preset_for(given), trainer), {**tuned_for(given), **given}
    settings = unsaid(trainer) | algorithm_settings(said, trainer)
    settings |= {name: value for name, value in said.items() if name in settings}
    if ALGORITHMS[trainer].unrolls:
        settings |= unroll_replay_for(said, trainer, METHOD, preset.buffer, preset.buffer_args)
    else:
        settings |= presets.replay(preset, given, CATALOGUE)
    settings |= offline_settings(given, settings, trainer)
    presets.check_needs(preset, settings)
    settings |= {"preset": preset.name, "output_dir": str(settings["output_dir"])}
    settings = plain(settings)
    check_together(trainer, settings)
    if not ALGORITHMS[trainer].unrolls and settings["buffer_size"] < settings["train_batch_size"]:
        raise UsageError(
            f"--buffer_size {settings['buffer_size']} is smaller than one batch; "
            f"expected at least --train_batch_size, {settings['train_batch_size']}"
        )
    return SimpleNamespace(**settings)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as JSON would give them back: several numbers are a list."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def check_together(trainer: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings of an algorithm that do not fit each other.

    Raises:
        UsageError: Naming them.
    """
    algorithm = ALGORITHMS[trainer]
    try:
        algorithm.settings(**{name: settings[name] for name in algorithm.defaults})
    except ValueError as error:
        raise UsageError(f"--{error}") from None


def unsaid(trainer: str) -> dict[str, Any]:
    """Return the settings of a run of an algorithm of which nothing is said."""
    elsewhere = METHOD | INVOCATION | ALGORITHM_FLAGS.keys()
    row = ALGORITHMS[trainer]
    found = {name: value for name, value in DEFAULTS.items() if name not in elsewhere}
    return {**found, **row.defaults, **row.of_run}


def preset_for(given: Mapping[str, Any]) -> presets.Preset:
    """Return the preset that was asked for, or the environment's."""
    if "preset" in given:
        return presets.load(given["preset"])
    return presets.automatic(*(given.get(name, DEFAULTS[name]) for name in ("env", "trainer")))


def tuned_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset's settings that no flag overrides.

    Args:
        given: Flags and values that were given.

    Raises:
        UsageError: The preset says something that no flag would accept.
    """
    preset = preset_for(given)
    found = by_name(preset.settings(*(given.get(name, DEFAULTS[name]) for name in ("trainer", "env"))))
    refused = with_scope("method", "invocation") | {"trainer", "env", "preset"}
    accepted = {name: flag.type for name, flag in FLAGS.items() if name not in refused}
    return presets.converted(preset.name, presets.fitting(found, given), accepted)


def preset_told(given: Mapping[str, Any]) -> str:
    """Return a line that says which defaults a preset changed, "" where it changed none."""
    kind = {name: given[name] for name in ("trainer", "env") if name in given}
    plain, tuned = (vars(settings_for(line)) for line in (kind | {"preset": presets.NONE}, given))
    changed = {name: value for name, value in tuned_for(given).items() if plain.get(name) != tuned[name]}
    told = f"preset {given['preset']}" if "preset" in given else "defaults for this environment"
    return f"{told}: {presets.shown(changed)}" if changed else ""


def settings_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> SimpleNamespace:
    """Return the settings of a resumed run: the checkpoint's, with those changes that a running job can take.

    Args:
        saved: The settings in the checkpoint.
        given: Flags and values that were given beside ``--resume``.

    Raises:
        UsageError: A flag that differs from the checkpoint and cannot be changed.
    """
    saved = unsaid(saved.get("trainer", DEFAULTS["trainer"])) | by_name(saved)
    asked = replay_resumed(saved, given) if METHOD & given.keys() else {}
    asked |= {name: value for name, value in given.items() if name not in METHOD}
    if "env" in asked:
        asked["env"] = find_environment(asked["env"], saved["env_args"]).name
    asked = updates_resumed(saved, plain(asked))
    algorithm_settings({name: asked[name] for name in RATES & asked.keys()}, saved.get("trainer", DEFAULTS["trainer"]))
    if asked.get("device") == "auto":  # where it was trained before
        del asked["device"]
    for name in sorted(asked.keys() - CHANGEABLE - INVOCATION - RATES):
        if asked[name] != saved.get(name):
            raise UsageError(
                f"the checkpoint was made with {name} {saved.get(name)}, not {asked[name]}; leave the flag out"
                " (of what is learned a resumed run may change learning rates alone)"
            )
    changes = {name: asked[name] for name in (CHANGEABLE | RATES) & asked.keys() - {"output_dir"}}
    return SimpleNamespace(**saved | changes)


def replay_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what flags about replay say beside ``--resume``; what they leave open is the checkpoint's."""
    trainer = saved.get("trainer", DEFAULTS["trainer"])
    if ALGORITHMS[trainer].unrolls:
        return unroll_replay_for(given, trainer, METHOD, saved["buffer"], saved["buffer_args"])
    asked = replay_for(given if names_method(given) else {**given, "buffer": saved["buffer"]}, CATALOGUE)
    asked["buffer_args"] = saved["buffer_args"] | asked["buffer_args"]
    if "prioritized_replay" not in given:
        asked["prioritized"] = saved["prioritized"]
    if "interp_prio_update" not in given:
        asked["credit_both"] = saved["credit_both"]
    return asked
