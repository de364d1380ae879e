"""Experiments: what `rllib train` runs, from flags or from a file of tuned examples, through Ray Tune."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils import replay_buffers as stock_buffers
from ray.tune.search.variant_generator import generate_variants

from interreplay.errors import UsageError, accepted_names, did_you_mean
from interreplay.rllib.command.algorithm_names import config_for, with_our_buffers
from interreplay.rllib.command.callbacks import NamesClasses
from interreplay.rllib.command.resources import Room, check_room

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


@dataclass
class Experiment:
    """One algorithm on one environment.

    Attributes:
        name: Of the folder with its results.
        run: The algorithm, as `algorithm_names.config_for` knows it.
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

    def check(self, there: Room, share: bool = False) -> float:
        """Return the most CPUs that one trial requests; reject an experiment that could not start.

        Args:
            there: What Ray hands out.
            share: Whether processes may share CPUs where there are fewer than one trial requests.

        Raises:
            UsageError: A point of the grid cannot be built or requests more than there is, or `stop` names an
                unknown result.
        """
        stop_criteria(self.stop)
        cpus = 0.0
        for _, settings in itertools.islice(generate_variants(self.config), MOST_CHECKED):
            point = configured(config_for(self.run, self.env, str), settings)
            check(point)
            cpus = max(cpus, check_room(point, there, share))
        return cpus

    def tuner(
        self,
        local_dir: Path,
        verbose: int = 0,
        say: Callable[[str], object] = str,
        callbacks: Sequence[tune.Callback] = (),
    ) -> tune.Tuner:
        """Return Ray Tune's part, ready to `fit`.

        Args:
            local_dir: Folder in which the experiment's own is made.
            verbose: How much Tune prints.
            say: Takes a line about what a retired environment was replaced by.
            callbacks: Tune's.
        """
        config = configured(config_for(self.run, self.env, say), self.config)
        run_config = tune.RunConfig(
            name=self.name,
            storage_path=str(local_dir.absolute()),
            stop=stop_criteria(self.stop),
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=self.checkpoint_freq, checkpoint_at_end=self.checkpoint_at_end
            ),
            verbose=verbose,
            callbacks=[NamesClasses(), *callbacks],
        )
        tune_config = tune.TuneConfig(num_samples=self.num_samples)
        return tune.Tuner(config.algo_class, param_space=config, run_config=run_config, tune_config=tune_config)


def stop_criteria(stop: Mapping[str, Any]) -> dict[str, Any]:
    """Return results at which to end, by their names of today.

    Raises:
        UsageError: For a result that there is not, which Tune would wait for, or a value that is no number.
    """
    for name, value in stop.items():
        if name not in RESULTS and "/" not in name:
            hint = accepted_names(name, RESULTS)
            raise UsageError(f"stop: there is no result {name!r}; {hint}, or part/of/the/results")
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise UsageError(f"stop: {name} {value!r}; expected a number")
    return {RENAMED.get(name, name): value for name, value in stop.items()}


def configured(config: AlgorithmConfig, settings: Mapping[str, Any]) -> AlgorithmConfig:
    """Return `config` with `settings`.

    Raises:
        UsageError: For a setting that the algorithm does not have.
    """
    properties = [name for name, value in inspect.getmembers(type(config)) if isinstance(value, property)]
    known = [name for name in (*vars(config), *properties, "lambda") if not name.startswith("_")]
    for name in settings:
        if name not in known:
            hint = did_you_mean(name, known) or "see the documentation of its configuration"
            raise UsageError(f"{config.algo_class.__name__} has no setting {name!r}; {hint}")
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
    """Return whether settings of a replay buffer, or any of those to choose from, name one that RLlib lacks."""
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
