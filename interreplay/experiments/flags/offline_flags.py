"""The flags about recorded experience, and the settings that they change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import number, reader, whole
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import Number, OrWord


def data(text: str) -> str:
    """Read a path, made absolute, or an id."""
    path = Path(text).expanduser()
    return str(path.absolute()) if path.exists() else text


data.metavar = "PATH_OR_ID"  # type: ignore[attr-defined]

OFFLINE_FLAGS = (
    Flag(
        "offline_data",
        data,
        None,
        "also learn from recorded experience: a Minari dataset (its folder, or minari:ID), RLlib's Parquet episodes, a "
        "run's folder, a checkpoint or a saved replay buffer; the replay method applies to it as to the run's own rows",
        changeable=True,
    ),
    Flag("offline_share", number(0, 1), 0.5, "share of every batch from --offline_data"),
    Flag(
        "offline_share_end",
        reader(OrWord(Number(0, 1), "none", None)),
        None,
        "--offline_share at the end of the run, reached linearly; none: constant",
    ),
    Flag(
        "updates",
        whole(1),
        None,
        "number of updates from --offline_data alone, with --total_env_steps 0; they are counted as steps",
        scope="execution",
        changeable=True,
    ),
)


def offline_settings(given: Collection[str], settings: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """Return the settings that recorded experience changes.

    Args:
        given: Names of the flags that were given.
        settings: The settings of the run.
        trainer: The algorithm.

    Raises:
        UsageError: Flags contradict each other.
    """
    recorded = settings["offline_data"]
    updates = settings["updates"]
    for name in ("offline_share", "offline_share_end"):
        if name in given and recorded is None:
            raise UsageError(f"--{name} needs --offline_data")
    if recorded is not None and ALGORITHMS[trainer].unrolls:
        raise UsageError(f"--offline_data is about replayed transitions; {trainer} learns from unrolls")
    if updates is None:
        if settings["total_env_steps"] == 0:
            raise UsageError(
                "--total_env_steps 0 needs --offline_data to learn from, and --updates for how many updates"
            )
        return {}
    if recorded is None or settings["total_env_steps"] != 0:
        raise UsageError(f"--updates {updates} is for learning from data alone: --offline_data and --total_env_steps 0")
    for name in ("updates_per_step", "learning_starts", "offline_share", "offline_share_end"):
        if name in given:
            raise UsageError(f"--{name} is about a run with env steps; one with --total_env_steps 0 has none")
    return {"total_env_steps": updates, "learning_starts": 0, "updates_per_step": 1.0}


def updates_resumed(saved: Mapping[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return the flags next to ``--resume``, with updates in place of steps as in `offline_settings`."""
    if saved["updates"] is None:
        if asked.get("updates") or asked.get("total_env_steps") == 0:
            raise UsageError("the checkpoint is of a run with env steps; --total_env_steps N continues it")
        if asked.get("offline_data") and saved["offline_data"] is None:
            raise UsageError(f"the checkpoint was made without --offline_data, not with {asked['offline_data']}")
        return asked
    if asked.get("total_env_steps"):
        raise UsageError("the checkpoint is of a run without env steps; --updates N continues it")
    asked.pop("total_env_steps", None)
    if "updates" in asked:
        asked["total_env_steps"] = asked["updates"]
    return asked


def check_recorded(settings: SimpleNamespace, open_rows: Callable[[str], Any]) -> tuple[str, str]:
    """Open the recorded experience of a run; return its key and a line about it.

    Args:
        settings: The settings of the run; those of a resumed run contain the key.
        open_rows: Opens rows by their name.

    Raises:
        UsageError: The rows cannot be read, do not fit the environment, or have changed since the run began.
    """
    rows = open_rows(settings.offline_data)
    known = getattr(settings, "offline_key", None)
    if known not in (None, rows.key):
        raise UsageError(
            f"offline data {settings.offline_data} has changed since the run began: its key is {rows.key}, the "
            f"checkpoint's {known}; if the data was moved, --offline_data names its new place"
        )
    share = f"{settings.offline_share:g}"
    if settings.updates is not None:
        share = "all"
    elif settings.offline_share_end is not None:
        share += f" to {settings.offline_share_end:g}"
    return rows.key, f"offline data {settings.offline_data}: {len(rows):,} rows, {share} of every batch"
