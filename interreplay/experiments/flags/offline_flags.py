"""The flags about recorded experience, and what they make of the replay method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.replay_flags import replay_arguments
from interreplay.experiments.flags.values import number, reader, whole
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import Number, OrWord


def data(text: str) -> str:
    """Read a path, absolute from here on, or an id."""
    path = Path(text).expanduser()
    return str(path.absolute()) if path.exists() else text


data.metavar = "PATH_OR_ID"  # type: ignore[attr-defined]

OFFLINE_FLAGS = (
    Flag(
        "offline_data",
        data,
        None,
        "learn from recorded experience too: a Minari dataset (its folder, or minari:ID), RLlib's Parquet episodes, a "
        "run's folder, a checkpoint or a saved replay buffer; the replay method works in it as in the run's own rows",
        changeable=True,
    ),
    Flag("offline_share", number(0, 1), 0.5, "its share of every batch"),
    Flag(
        "offline_share_end",
        reader(OrWord(Number(0, 1), "none", None)),
        None,
        "its share at the end of the run, reached linearly; none: the same",
    ),
    Flag(
        "updates",
        whole(1),
        None,
        "learn from --offline_data alone, so many updates, with --total_env_steps 0; they take the place of steps",
        scope="execution",
        changeable=True,
    ),
)


def offline_settings(given: Mapping[str, Any], settings: Mapping[str, Any], trainer: str) -> dict[str, Any]:
    """Return what recorded experience changes in the other settings of a run.

    Args:
        given: Flags and values that were given.
        settings: Those of the run.
        trainer: Its algorithm.

    Raises:
        UsageError: Flags that do not fit each other.
    """
    recorded, updates = settings["offline_data"], settings["updates"]
    for name in ("offline_share", "offline_share_end"):
        if name in given and recorded is None:
            raise UsageError(f"--{name} needs --offline_data")
    if recorded is not None and ALGORITHMS[trainer].unrolls:
        raise UsageError(f"--offline_data is about replayed transitions; {trainer} learns from unrolls")
    if updates is None:
        if settings["total_env_steps"] == 0:
            raise UsageError("--total_env_steps 0 needs --offline_data to learn from, and --updates to say how often")
        return {}
    if recorded is None or settings["total_env_steps"] != 0:
        raise UsageError(f"--updates {updates} is for learning from data alone: --offline_data and --total_env_steps 0")
    for name in ("updates_per_step", "learning_starts", "offline_share", "offline_share_end"):
        if name in given:
            raise UsageError(f"--{name} is about a run with env steps; one with --total_env_steps 0 has none")
    return {"total_env_steps": updates, "learning_starts": 0, "updates_per_step": 1.0}


def updates_resumed(saved: Mapping[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return what flags beside ``--resume`` say, where updates take the place of steps as `offline_settings` has it.

    Raises:
        UsageError: They would make another kind of run of it.
    """
    if saved["updates"] is None:
        if asked.get("updates") or asked.get("total_env_steps") == 0:
            raise UsageError("the checkpoint is of a run with env steps; --total_env_steps N goes on")
        if asked.get("offline_data") and saved["offline_data"] is None:
            raise UsageError(f"the checkpoint was made without --offline_data, not with {asked['offline_data']}")
        return asked
    if asked.get("total_env_steps"):
        raise UsageError("the checkpoint is of a run without env steps; --updates N goes on")
    asked = {name: value for name, value in asked.items() if name != "total_env_steps"}
    return asked | ({"total_env_steps": asked["updates"]} if "updates" in asked else {})


def rows_for(settings: SimpleNamespace) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of what a run replays: a method, or a mix of it and of recorded rows."""
    online = {"capacity": settings.buffer_size, **replay_arguments(settings)}
    if getattr(settings, "offline_data", None) is None:
        return settings.buffer, online
    recorded = {"data": settings.offline_data, "method": settings.buffer, "arguments": replay_arguments(settings)}
    if settings.updates is not None:
        return "Offline", recorded
    end = settings.offline_share if settings.offline_share_end is None else settings.offline_share_end
    sources = {"online": {"type": settings.buffer, **online}, "offline": {"type": "Offline", **recorded}}
    return "Mix", {"sources": sources, "shares": {"offline": (settings.offline_share, end)}}


def check_recorded(settings: SimpleNamespace, open_rows: Callable[[str], Any]) -> str:
    """Open the recorded experience of a run, note its key, and return a line about it; "" where there is none.

    Args:
        settings: Those of the run; of a resumed one with the key that was noted.
        open_rows: Opens rows by their name.

    Raises:
        UsageError: They cannot be read, do not fit, or are no longer those that the run began with.
    """
    if getattr(settings, "offline_data", None) is None:
        return ""
    rows, known = open_rows(settings.offline_data), getattr(settings, "offline_key", None)
    if known not in (None, rows.key):
        raise UsageError(
            f"offline data {settings.offline_data} is not what the run began with: its key is {rows.key}, that of the "
            f"checkpoint {known}; where the same data lies elsewhere now, --offline_data names the place"
        )
    settings.offline_key = rows.key
    share = "all" if settings.updates is not None else f"{settings.offline_share:g}"
    if settings.updates is None and settings.offline_share_end is not None:
        share += f" to {settings.offline_share_end:g}"
    return f"offline data {settings.offline_data}: {len(rows):,} rows, {share} of every batch"
