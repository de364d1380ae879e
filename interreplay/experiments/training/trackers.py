"""Log runs to Weights & Biases and MLflow, through Ray's callbacks."""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

import ray
from ray.air.util.node import _force_on_current_node
from ray.tune.logger import LoggerCallback

from interreplay.errors import UsageError, describe_error


def trackers(wandb: str | None, mlflow: str | None, **wandb_settings: Any) -> list[LoggerCallback]:
    """Return the callbacks that log to Weights & Biases and MLflow, after setting them up.

    `wandb` is a project; ``WANDB_MODE=offline`` keeps everything on disk. `mlflow` is an experiment, with a prefix
    ``URI/`` that names the server, such as in ``file:runs/pendulum`` or ``http://host:5000/pendulum``; the default is
    ``MLFLOW_TRACKING_URI``.
    """
    made = []
    for package, place in (("wandb", wandb), ("mlflow", mlflow)):
        if place and importlib.util.find_spec(package) is None:
            raise UsageError(f"--{package} {place} needs {package}: pip install 'interreplay[{package}]'")
    if wandb:
        made.append(_wandb(wandb, wandb_settings))
    if mlflow:
        made.append(_mlflow(mlflow))
    return made


def _wandb(project: str, settings: dict[str, Any]) -> LoggerCallback:
    from ray.air.integrations.wandb import WandbLoggerCallback

    mode = os.environ.get("WANDB_MODE")
    if mode:  # the process that writes may have started before this was set
        settings = settings | {"mode": mode}
    callback = WandbLoggerCallback(project=project, **settings)
    how = "log in with: wandb login; or set WANDB_API_KEY; or keep the run on disk with WANDB_MODE=offline"
    _set_up(callback, f"--wandb {project}", how)
    # Ray would restart its own class of this actor, and warn at every start that this may fail.
    variables = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    actor = ray.remote(num_cpus=0, runtime_env={"env_vars": variables}, **_force_on_current_node())
    callback._remote_logger_class = actor(callback._logger_actor_cls)
    return callback


def _mlflow(place: str) -> LoggerCallback:
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 rejects folders by default
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    uri, _, experiment = place.rpartition("/")
    if not experiment:
        raise UsageError(f"--mlflow {place} names no experiment; expected [URI/]EXPERIMENT such as file:runs/pendulum")
    callback = MLflowLoggerCallback(tracking_uri=uri or None, experiment_name=experiment)
    return _set_up(callback, f"--mlflow {place}", "expected [URI/]EXPERIMENT such as file:runs/pendulum")


def _set_up(callback: LoggerCallback, flag: str, hint: str) -> LoggerCallback:
    try:
        callback.setup()
    except Exception as error:  # any error of a service's client
        raise UsageError(f"{flag} is not available ({describe_error(error)[:300]}); {hint}") from error
    return callback
