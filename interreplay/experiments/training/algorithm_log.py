"""Write the results of an algorithm trained in Python, for `interreplay report`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interreplay.environments.registration import inner_env_name
from interreplay.errors import UsageError
from interreplay.experiments.training.result_log import EpisodeFile, RunLog
from interreplay.runs.resume import as_plain
from interreplay.runs.run_folder import RunFolder


class AlgorithmLog(contextlib.AbstractContextManager["AlgorithmLog"]):
    """A log of an algorithm's results in a folder, in the format of ``interreplay train``; created by `log_to`.

    The folder receives ``params.json``, ``progress.csv``, ``result.json`` and events for TensorBoard. With the setting
    ``episode_table``, also ``episodes.csv``.

    ```python
    with interreplay.log_to(algo, "results/first_run") as log:
        while algo.env_steps < 10_000:
            log.write(algo.train())
    ```

    Args:
        algo: The algorithm.
        folder: Folder of this run alone, created if it does not exist. A run restored from a checkpoint continues its
            results; those beyond the checkpoint are dropped.
        total_env_steps: Env steps after which the run is finished, for reports.

    Raises:
        UsageError: The folder is not writable, or holds results of another run, even one with equal settings.
    """

    def __init__(self, algo: Any, folder: str | Path, total_env_steps: int | None = None):
        self._algo = algo
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            settings = list_settings(algo, total_env_steps)
            continue_results(folder, settings, algo.env_steps)
            self._log = RunLog(folder, settings, algo.env_steps)
            self._episodes = EpisodeFile(folder, algo)
        except OSError as error:
            raise UsageError(f"results cannot be written to {folder} ({error.strerror})") from error

    def write(self, result: dict[str, Any]) -> None:
        """Add one result of ``algo.train()``, and the episodes since the last one if the algorithm records them."""
        self._log.write(result, self._algo.env_steps)
        self._episodes.write()

    def close(self) -> None:
        """Close the files."""
        self._log.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


log_to = AlgorithmLog


def continue_results(folder: Path, settings: Mapping[str, Any], env_steps: int) -> None:
    """Drop the results of a folder beyond `env_steps`, from which a restored algorithm continues; reject other runs."""
    results = folder / "result.json"
    if not results.exists() or not results.stat().st_size:
        return
    recorded = json.loads((folder / "params.json").read_text())
    if recorded.get("run_id") != settings["run_id"]:
        fix = "give a new folder, or restore the algorithm from a checkpoint of that run"
        raise UsageError(f"{folder} holds results of another run; {fix}")
    RunFolder(folder).rewind(env_steps)


def list_settings(algo: Any, total_env_steps: int | None = None) -> dict[str, Any]:
    """Return the settings of an algorithm by the names of the command line."""
    config = algo.config
    arguments = dict(config.replay_buffer_config)
    found = {
        "run_id": algo.run_id,
        "trainer": type(algo).__name__,
        "env": inner_env_name(config.env, config.env_config),
        "buffer": arguments.pop("type"),
        "buffer_size": arguments.pop("capacity", None),
        "buffer_args": arguments,
        "seed": config.seed,
        "gamma": config.gamma,
        "total_env_steps": total_env_steps,
    }
    for attribute, field in config.own_settings().items():
        found[field.name] = getattr(config, attribute)
    found["train_batch_size"] = config.train_batch_size_per_learner

    def name_class(value: Any) -> str:
        return getattr(value, "__name__", type(value).__name__)

    return {name: as_plain(value, name_class) for name, value in found.items() if value is not None}
