"""Flags of the original work about replay, from ``other_programs.yaml``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag, by_name, read_programs
from interreplay.learning.setting_fields import Boolean, Number, OneOf, WholeNumber

ORIGINAL = read_programs()["original"]
"""Flags of the code of NMER and BIER."""
RENAMED = by_name(read_programs()["renamed"])
"""Flags of other programs, and the flags to use here."""
INSTEAD: dict[str, str] = ORIGINAL["removed"] | RENAMED
"""Flags that do not exist, and what to do instead."""
BLENDS = ("mixup_interpolation", "smote_interpolation")
"""Flags that require a method that blends by mixup: NMER if none is named."""


def smoothness(text: str) -> float:
    """Read ν of the Matérn kernel."""
    if text not in ("0.5", ".5", "1.5", "2.5"):
        raise argparse.ArgumentTypeError(f"must be .5, 1.5 or 2.5, got {text!r}")
    return float(text)


READERS: dict[str, Callable[[str], Any]] = {
    "boolean": Boolean(),
    "count": WholeNumber(1),
    "share": Number(0, 1),
    "positive": Number(0, open_low=True),
    "nonnegative": Number(0),
    "smoothness": smoothness,
    "holdout": Number(0, 0.9, open_low=True),
}


def _make_flag(name: str, row: Mapping[str, Any]) -> Flag:
    kind = row.get("reads", "boolean")
    read = OneOf(*kind) if isinstance(kind, list) else READERS[kind]
    default = row.get("default", False if kind == "boolean" else None)
    text = row.get("help") or f"use the replay method {row['method']}"
    return Flag(name, read, default, text, scope="method")


def _select(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: row[key] for name, row in table.items() if key in row}


ORIGINAL_REPLAY_FLAGS = tuple(_make_flag(name, row) for name, row in ORIGINAL["replay"].items())
GAUSSIAN_PROCESS_FLAGS = tuple(_make_flag(name, row) for name, row in ORIGINAL["gaussian_process"].items())
GAUSSIAN_PROCESS_NAMES = ORIGINAL["gaussian_process"].keys()
METHODS = _select(ORIGINAL["replay"], "method")
"""Flags that name a replay method."""
CHOOSING_FLAGS = ("custom_replay_buffer", *METHODS, *BLENDS)
BUFFER_ARGUMENTS = _select(ORIGINAL["replay"], "argument")
"""Flags that set one argument of the replay method."""
PRIORITY_ARGUMENTS = _select(ORIGINAL["replay"], "priority")
"""Flags that set one argument of the `Prioritized` selector."""


def gaussian_process_arguments(given: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return arguments of BIER, each as ``(flag that sets it, argument, value)``."""
    if given.get("use_delta") is False:
        raise UsageError("--use_delta False is not possible: the processes predict changes of state")
    found: list[tuple[str, str, Any]] = []
    for flag, row in ORIGINAL["gaussian_process"].items():
        if flag in given and "argument" in row:
            found.append((f"--{flag}", row["argument"], row.get("values", {}).get(given[flag], given[flag])))
    if given.get("use_botorch") and "use_priors" not in given:
        found.append(("--use_botorch", "priors", True))

    if given.get("global_hyperparams", True) is False:
        if given.get("mc_hyper"):
            raise UsageError("--global_hyperparams False contradicts --mc_hyper; give one of them")
        found.append(("--global_hyperparams", "hyperparameters", "local"))
    elif "mc_hyper" in given:
        found.append(("--mc_hyper", "hyperparameters", "monte_carlo" if given["mc_hyper"] else "rows"))
    elif "global_hyperparams" in given:  # alone, it means the fit to random rows
        found.append(("--global_hyperparams", "hyperparameters", "rows"))

    if given.get("standardize_gpr_x") and given.get("normalize"):
        raise UsageError("--normalize contradicts --standardize_gpr_x; give one of them")
    if given.get("normalize"):
        found.append(("--normalize", "scaling", "minmax"))
    elif "standardize_gpr_x" in given:
        found.append(("--standardize_gpr_x", "scaling", "standardize" if given["standardize_gpr_x"] else "none"))

    if given.get("gp_pca"):
        found.append(("--gp_pca", "pca_components", given.get("gp_pca_components", 8)))
    elif "gp_pca_components" in given:
        raise UsageError("--gp_pca_components needs --gp_pca")
    if given.get("perform_holdout_eval"):
        found.append(("--perform_holdout_eval", "holdout_split", given.get("holdout_split", 0.2)))
    elif "holdout_split" in given:
        raise UsageError("--holdout_split needs --perform_holdout_eval")
    return found
