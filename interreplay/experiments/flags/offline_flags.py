"""The flags about recorded experience, and the settings that they change."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from interreplay.environments.relabeled import module_name
from interreplay.errors import UsageError
from interreplay.experience.offline_data import open_rows
from interreplay.experience.offline_data.find import expand_pattern
from interreplay.experience.offline_data.where import SYNTAX, Where
from interreplay.experiments.flags.reading import Flag
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import Number, OrWord, WholeNumber


def data(text: str) -> str | list[str]:
    """Read paths and ids, separated by commas; paths are made absolute, and patterns replaced by their matches."""
    names = text.split(",")
    if os.path.exists(os.path.expanduser(text)):  # False for texts too long for a path
        names = [text]
    found: list[str] = []
    for name in map(str.strip, names):
        if not name:
            raise argparse.ArgumentTypeError(f"must be paths or ids, separated by commas, got {text!r}")
        path = Path(name).expanduser()
        try:
            found += [str(path.absolute())] if path.exists() else expand_pattern(name)
        except UsageError:  # nothing matches; the error is raised when the data is opened
            found.append(name)
    return found[0] if len(found) == 1 else found


def where(text: str) -> str:
    """Read conditions for recorded rows, and return them in their standard form."""
    try:
        return str(Where.parse(text))
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def reward_function(text: str) -> str:
    """Read the name of a function of a module, or of a file in the current folder, as ``module:function``."""
    try:
        return module_name(text)
    except UsageError:  # raised again when the function is imported
        return text


OFFLINE_FLAGS = (
    Flag(
        "offline_data",
        data,
        None,
        "also learn from recorded experience: a run's folder, an experience store, a Minari dataset (its folder, or "
        "minari:ID), RLlib's Parquet episodes, a checkpoint or a saved replay buffer; also a pattern such as "
        "'results/*', or several of these, separated by commas; the replay method applies to it as to the run's own "
        "rows",
        changeable=True,
    ),
    Flag("offline_where", where, None, f"use only recorded rows that fulfill {SYNTAX}"),
    Flag(
        "relabel",
        reward_function,
        None,
        "function reward(obs, action, next_obs, **columns) of arrays that replaces the rewards, of recorded and of new "
        "rows, and the terminations if it returns both",
    ),
    Flag("offline_share", Number(0, 1), 0.5, "share of every batch from --offline_data"),
    Flag(
        "offline_share_end",
        OrWord(Number(0, 1), "none", None),
        None,
        "--offline_share at the end of the run, reached linearly; none: constant",
    ),
    Flag(
        "updates",
        WholeNumber(1),
        None,
        "number of updates from --offline_data alone, with --total_env_steps 0; each counts as one environment step",
        scope="execution",
        changeable=True,
    ),
)


MODEL_BASED = "ModelBased"


def offline_settings(given: Collection[str], settings: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """Return the settings that recorded experience changes, after checking the flags."""
    recorded = settings["offline_data"]
    updates = settings["updates"]
    for name in ("offline_where", "offline_share", "offline_share_end"):
        if name in given and recorded is None:
            raise UsageError(f"--{name} needs --offline_data")
    if settings["relabel"] and settings["frame_stack"] > 1:
        raise UsageError(
            f"--relabel computes rewards from single frames; --frame_stack {settings['frame_stack']}: expected 1"
        )
    if ALGORITHMS[trainer].unrolls and settings["keep_experience"] not in ("auto", 0):
        raise UsageError(f"--keep_experience applies to replayed transitions; {trainer} learns from unrolls")
    if recorded is not None and ALGORITHMS[trainer].unrolls:
        raise UsageError(f"--offline_data applies to replayed transitions; {trainer} learns from unrolls")
    if updates is None:
        if settings["total_env_steps"] == 0:
            raise UsageError(
                "--total_env_steps 0 needs --offline_data to learn from, and --updates for the number of updates"
            )
        return {}
    if recorded is None or settings["total_env_steps"] != 0:
        raise UsageError(f"--updates {updates} is for learning from data alone: --offline_data and --total_env_steps 0")
    for name in ("updates_per_step", "learning_starts", "offline_share", "offline_share_end"):
        if name in given:
            raise UsageError(f"--{name} applies to runs with env steps; leave it out with --total_env_steps 0")
    return {"total_env_steps": updates, "learning_starts": 0, "updates_per_step": 1.0}


def updates_resumed(saved: Mapping[str, Any], requested: dict[str, Any]) -> dict[str, Any]:
    """Return the flags next to ``--resume``, with updates in place of steps as in `offline_settings`."""
    if saved["updates"] is None:
        if requested.get("updates") or requested.get("total_env_steps") == 0:
            raise UsageError("the checkpoint is of a run with env steps; --total_env_steps N continues it")
        if requested.get("offline_data") and saved["offline_data"] is None:
            raise UsageError(f"the checkpoint was made without --offline_data, not with {requested['offline_data']}")
        return requested
    if requested.get("total_env_steps"):
        raise UsageError("the checkpoint is of a run without env steps; --updates N continues it")
    requested.pop("total_env_steps", None)
    if "updates" in requested:
        requested["total_env_steps"] = requested["updates"]
    return requested


def check_recorded(settings: SimpleNamespace, spaces: tuple[gym.Space, gym.Space]) -> tuple[str, str]:
    """Open the recorded experience of a run; return its key, which must equal that of a resumed run, and a line."""
    rows = open_rows(settings.offline_data, spaces, where=settings.offline_where, relabel=settings.relabel)
    known = getattr(settings, "offline_key", None)
    if known not in (None, rows.key):
        raise UsageError(
            f"offline data {rows.name} has changed since the run began: its key is {rows.key}, the "
            f"checkpoint's {known}; if the data was moved, set --offline_data to its new location"
        )
    if settings.buffer == MODEL_BASED:
        return rows.key, f"offline data {rows.name}: {len(rows):,} rows, added to the real rows"
    share = f"{settings.offline_share:g}"
    if settings.updates is not None:
        share = "all"
    elif settings.offline_share_end is not None:
        share += f" to {settings.offline_share_end:g}"
    return rows.key, f"offline data {rows.name}: {len(rows):,} rows, {share} of every batch"
