"""Runs in Weights & Biases and MLflow, through the callbacks that Ray has for them."""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

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
    return _set_up(callback, f"--wandb {project}", "log in with: wandb login; or set WANDB_MODE=offline")


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
    except Exception as error:  # whatever a client of a service raises
        raise UsageError(f"{flag}: {' '.join(str(error).split())[:300]}; {hint}") from error
    return callback


def _require(package: str, flag: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{flag} needs {package}: pip install 'interreplay[{package}]'")
