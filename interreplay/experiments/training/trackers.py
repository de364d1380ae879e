"""Runs in Weights & Biases and MLflow, through the callbacks that Ray has for them."""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
from pathlib import Path
from typing import Any

import ray
from ray.air.util.node import _force_on_current_node
from ray.tune.logger import LoggerCallback

from interreplay.errors import UsageError


def trackers(wandb: str | None, mlflow: str | None, **wandb_settings: Any) -> list[LoggerCallback]:
    """Return callbacks that log to these, set up.

    Args:
        wandb: A project of Weights & Biases, or None. ``WANDB_MODE=offline`` keeps everything on disk.
        mlflow: An experiment of MLflow, or None; with ``URI/`` before it, at that place, such as ``file:runs/pendulum``
            or ``http://host:5000/pendulum``, else at ``MLFLOW_TRACKING_URI``.
        **wandb_settings: For ``wandb.init``.

    Raises:
        UsageError: A package is not installed, or the service cannot be had.
    """
    made = [_wandb(wandb, wandb_settings)] if wandb else []
    return made + ([_mlflow(mlflow)] if mlflow else [])


def _wandb(project: str, settings: dict[str, Any]) -> LoggerCallback:
    _require("wandb", f"--wandb {project}")
    from ray.air.integrations.wandb import WandbLoggerCallback

    mode = os.environ.get("WANDB_MODE")  # for the process that writes, which may have begun before this was set
    callback = WandbLoggerCallback(project=project, **settings | ({"mode": mode} if mode else {}))
    try:
        _set_up(callback, f"--wandb {project}", "log in with: wandb login; or set WANDB_MODE=offline")
    except UsageError as error:
        if "api key" not in str(error).lower():
            raise
        how = "log in with: wandb login; or set WANDB_API_KEY; or keep the run on disk with WANDB_MODE=offline"
        raise UsageError(f"--wandb {project} needs a key of Weights & Biases, and none is set; {how}") from error
    # Ray's own class of this actor would be restarted, and warns at every start that this may fail.
    variables = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    actor = ray.remote(num_cpus=0, runtime_env={"env_vars": variables}, **_force_on_current_node())
    callback._remote_logger_class = actor(callback._logger_actor_cls)
    return callback


def offline_runs(folder: Path) -> str:
    """Return a line about the runs of Weights & Biases that are on disk only, "" if there are none."""
    found = sorted(folder.glob("wandb/offline-run-*"))
    if not found:
        return ""
    runs = " ".join(shlex.quote(str(path)) for path in found)
    return f"Weights & Biases: the run is in {folder / 'wandb'}; upload it with: wandb sync {runs}"


def _mlflow(place: str) -> LoggerCallback:
    _require("mlflow", f"--mlflow {place}")
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # who names a folder wants one; MLflow 3 would rather not
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    uri, _, experiment = place.rpartition("/")
    if not experiment:
        raise UsageError(f"--mlflow {place} names no experiment; expected [URI/]EXPERIMENT such as file:runs/pendulum")
    callback = MLflowLoggerCallback(tracking_uri=uri or None, experiment_name=experiment)
    return _set_up(callback, f"--mlflow {place}", "expected [URI/]EXPERIMENT such as file:runs/pendulum")


def _set_up(callback: LoggerCallback, flag: str, hint: str) -> LoggerCallback:
    try:
        callback.setup()
    except OSError as error:
        raise UsageError(f"{flag} cannot be written to ({error.strerror or error}); {hint}") from error
    except Exception as error:  # whatever a client of a service raises
        raise UsageError(f"{flag}: {' '.join(str(error).split())[:300]}; {hint}") from error
    return callback


def _require(package: str, flag: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{flag} needs {package}: pip install 'interreplay[{package}]'")
