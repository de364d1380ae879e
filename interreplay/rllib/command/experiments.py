"""Experiments: what `rllib train` runs, from flags or from a file of tuned examples, through Ray Tune."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils import replay_buffers as stock_buffers
from ray.tune.search.variant_generator import generate_variants

from interreplay.errors import UsageError, accepted_names
from interreplay.rllib.checkpoints.safe_pickle import name_class
from interreplay.rllib.command.algorithm_names import config_for, with_our_buffers

# What RLlib called them before, and where they are now.
RENAMED = {
    "timesteps_total": "num_env_steps_sampled_lifetime",
    "env_steps": "num_env_steps_sampled_lifetime",
    "episode_reward_mean": "env_runners/episode_return_mean",
    "episode_return_mean": "env_runners/episode_return_mean",
    "sampler_results/episode_reward_mean": "env_runners/episode_return_mean",
}
GRID, REPLAY = "grid_search", "replay_buffer_config"
MOST_CHECKED = 100
"""Points of a grid that are checked before anything starts."""
RESULTS = ("training_iteration", "time_total_s", "num_env_steps_sampled_lifetime", *RENAMED)
"""At which a run may stop, beside those within a part of the results, such as ``evaluation/env_runners/...``."""
KEYS = ("run", "env", "stop", "config", "num_samples", "checkpoint_freq", "checkpoint_at_end")


@dataclass
class Experiment:
    """One algorithm on one environment.

    Attributes:
        name: Of the folder with its results.
        run: The algorithm, as `registry.config_for` knows it.
        env: The environment.
        stop: Results at which it ends; whichever is reached first.
        config: Settings of the algorithm; values may be ``{"grid_search": [...]}``.
        num_samples: How often it is run.
        checkpoint_freq: Iterations between checkpoints; 0 for one at the end only.
        checkpoint_at_end: Whether there is one at the end.
    """

    name: str
    run: str
    env: str
    stop: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    num_samples: int = 1
    checkpoint_freq: int = 0
    checkpoint_at_end: bool = True

    def tuner(
        self,
        local_dir: Path,
        verbose: int = 1,
        say: Callable[[str], object] = str,
        callbacks: Sequence[tune.Callback] = (),
    ) -> tune.Tuner:
        """Ray Tune's part, ready to `fit`; `say` is told what a retired environment was taken for."""
        for _, settings in itertools.islice(generate_variants(self.config), MOST_CHECKED):
            check(configured(config_for(self.run, self.env, str), settings))
        config = configured(config_for(self.run, self.env, say), self.config)
        run_config = tune.RunConfig(
            name=self.name,
            storage_path=str(local_dir.absolute()),
            stop=stop_criteria(self.stop),
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=self.checkpoint_freq, checkpoint_at_end=self.checkpoint_at_end
            ),
            verbose=verbose,
            callbacks=[_NamesClasses(), *callbacks],
        )
        tune_config = tune.TuneConfig(num_samples=self.num_samples)
        return tune.Tuner(config.algo_class, param_space=config, run_config=run_config, tune_config=tune_config)


class _NamesClasses(tune.Callback):
    """Lets checkpoints of RLlib's own algorithms be looked through by `safe_pickle`; ours do so themselves."""

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: tune.Checkpoint, **info: Any
    ) -> None:
        name_class(Path(checkpoint.path))


def stop_criteria(stop: Mapping[str, Any]) -> dict[str, Any]:
    """Results at which to end, by their names of today.

    Raises:
        UsageError: For a result that there is not, which Tune would wait for, or a value that is no number.
    """
    for name, value in stop.items():
        if name not in RESULTS and "/" not in name:
            raise UsageError(f"--stop says {name!r}; {accepted_names(name, RESULTS)}, or part/of/the/results")
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise UsageError(f"--stop says {name} {value!r}; expected a number")
    return {RENAMED.get(name, name): value for name, value in stop.items()}


def configured(config: AlgorithmConfig, settings: Mapping[str, Any]) -> AlgorithmConfig:
    """`config` with `settings`.

    Raises:
        UsageError: For a setting that the algorithm does not have.
    """
    properties = [name for name, value in inspect.getmembers(type(config)) if isinstance(value, property)]
    known = [name for name in (*vars(config), *properties, "lambda") if not name.startswith("_")]
    for name in settings:
        if name not in known:
            raise UsageError(f"{config.algo_class.__name__} has no setting {name!r}; {_nearest(name, known)}")
    settings = dict(settings)
    replay = settings.pop(REPLAY, None)
    if _is_ours(replay):
        config = with_our_buffers(config)
    try:
        config.update_from_dict(settings)
        if isinstance(replay, Mapping) and GRID in replay:
            # Tune's choice stays open; each of its points is what it would be alone.
            points = [config.copy().training(**{REPLAY: point}).replay_buffer_config for point in replay[GRID]]
            config.replay_buffer_config = {GRID: points}
        elif replay is not None:
            config.training(**{REPLAY: replay})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{config.algo_class.__name__}: {error}") from error
    return config


def _is_ours(replay: Any) -> bool:
    """Whether the settings of a replay buffer, or any of those to choose from, name one that RLlib does not have."""
    points = replay.get(GRID, [replay]) if isinstance(replay, Mapping) else []
    kinds = [point.get("type") for point in points if isinstance(point, Mapping)]
    return any(isinstance(kind, str) and "." not in kind and not hasattr(stock_buffers, kind) for kind in kinds)


def check(config: AlgorithmConfig) -> None:
    """Refuse a configuration without open choices that could not be built.

    Raises:
        UsageError: With what the algorithm says.
    """
    try:
        config.validate()
    except ValueError as error:
        raise UsageError(f"{config.algo_class.__name__}: {error}") from error


def _nearest(name: str, known: list[str]) -> str:
    hint = accepted_names(name, known).partition("accepted:")[0].strip()
    return hint or "see the documentation of its configuration"


def read_file(path: Path) -> list[Experiment]:
    """Experiments of a YAML file in the format of RLlib's tuned examples: ``{name: {run, env, stop, config}}``.

    Raises:
        UsageError: When it cannot be read or says something unknown.
    """
    contents = read_settings(str(path)) if path.exists() else None
    if not isinstance(contents, dict):
        raise UsageError(f"{path} holds no experiments; expected YAML of the form name: {{run: SAC, env: ...}}")
    found = []
    for name, given in contents.items():
        given = dict(given) if isinstance(given, dict) else {}
        given["env"] = given.get("env") or dict(given.get("config") or {}).pop("env", None)
        unknown = [key for key in given if key not in KEYS]
        if unknown:
            raise UsageError(f"{path}: {name} says {unknown[0]!r}; {accepted_names(unknown[0], KEYS)}")
        if not given.get("run") or not given["env"]:
            raise UsageError(f"{path}: {name} lacks run or env")
        config = {key: value for key, value in (given.pop("config", None) or {}).items() if key != "env"}
        found.append(Experiment(str(name), **given | {"stop": given.get("stop") or {}, "config": config}))
    return found


def read_settings(text: str) -> dict[str, Any]:
    """A mapping from JSON or YAML, or from a file of either.

    Raises:
        UsageError: When it is neither.
    """
    source = Path(text).read_text() if not text.lstrip().startswith("{") and Path(text).exists() else text
    try:
        try:
            value = json.loads(source)
        except ValueError:
            value = yaml.safe_load(source)
    except yaml.YAMLError as error:
        raise UsageError(f"{text!r} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise UsageError(
            f"{text!r} is no mapping; expected JSON or YAML such as '{{\"gamma\": 0.95}}', or a file of it"
        )
    return value
