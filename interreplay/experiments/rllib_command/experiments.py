"""Experiments of `rllib train`, executed by Ray Tune, and the names of algorithms: ours and RLlib's."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.registry import ALGORITHMS as STOCK_ALGORITHMS
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.utils import replay_buffers as stock_buffers
from ray.tune.registry import ENV_CREATOR, _global_registry
from ray.tune.search.variant_generator import generate_variants

from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.flags.presets import from_file, read_yaml
from interreplay.experiments.training.start import new_config
from interreplay.learning.algorithms_table import ALGORITHMS, check_actions, is_algorithm
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.rllib.algorithms.rllib_settings import explain_rejected, settings_as_properties
from interreplay.rllib.host import choices, is_search_space
from interreplay.rllib.stock.configs import StockDQNConfig, StockSACConfig
from interreplay.runs.run_folder import check_name

WITH_OUR_BUFFERS = {DQNConfig: StockDQNConfig, SACConfig: StockSACConfig}
STOCK = "-stock"

RENAMED = {
    "timesteps_total": "num_env_steps_sampled_lifetime",
    "env_steps": "num_env_steps_sampled_lifetime",
    "episode_reward_mean": "env_runners/episode_return_mean",
    "episode_return_mean": "env_runners/episode_return_mean",
    "sampler_results/episode_reward_mean": "env_runners/episode_return_mean",
}
"""Former and short names of results, and RLlib's current names."""
REPLAY = "replay_buffer_config"
MOST_CHECKED = 100
"""Maximum number of points of a grid that are checked in advance."""
RESULTS = ("training_iteration", "time_total_s", "num_env_steps_sampled_lifetime", *RENAMED)
"""Results at which a run may stop, in addition to nested ones such as ``evaluation/env_runners/...``."""


@dataclass
class Experiment:
    """One algorithm on one environment, as in a file of RLlib's tuned examples.

    `name` is the name of its results folder. The experiment stops when the first result in `stop` is reached. Settings
    in `config` may be ``{"grid_search": [...]}``.
    """

    name: str
    run: str
    env: str = ""
    stop: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    num_samples: int = 1
    checkpoint_freq: int = 0
    checkpoint_at_end: bool = True

    def request(self) -> dict[str, float]:
        """Check `stop` and the points of the grid; return the most CPUs and GPUs that one trial requests."""
        stop_criteria(self.stop)
        most = {"CPU": 0.0, "GPU": 0.0}
        for _, settings in itertools.islice(generate_variants(self.config), MOST_CHECKED):
            point = configure(make_default_config(self.run, self.env, str, settings.get("env_config")), settings)
            try:
                point.validate()
            except ValueError as error:
                raise UsageError(f"{point.algo_class.__name__}: {error}") from error
            request = point.algo_class.default_resource_request(point.copy(copy_frozen=False)).required_resources
            for kind, before in most.items():
                most[kind] = max(before, request.get(kind, 0.0))
        return most

    def tuner(
        self,
        local_dir: Path,
        verbose: int = 0,
        report: Callable[[str], object] = str,
        callbacks: Sequence[tune.Callback] = (),
    ) -> tune.Tuner:
        """Return the `Tuner`, ready to `fit`."""
        _, first = next(generate_variants(self.config))
        config = configure(make_default_config(self.run, self.env, report, first.get("env_config")), self.config)
        run_config = tune.RunConfig(
            name=self.name,
            storage_path=str(local_dir.absolute()),
            stop=stop_criteria(self.stop),
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=self.checkpoint_freq, checkpoint_at_end=self.checkpoint_at_end
            ),
            verbose=verbose,
            callbacks=list(callbacks),
        )
        tune_config = tune.TuneConfig(
            num_samples=self.num_samples, trial_name_creator=partial(trial_name, config.algo_class.__name__, self.env)
        )
        return tune.Tuner(config.algo_class, param_space=config, run_config=run_config, tune_config=tune_config)


def trial_name(algorithm: str, env: str, trial: Any) -> str:
    """Return the name of a trial, also the prefix of its folder's name."""
    return f"{algorithm}_{env}_{trial.trial_id}".replace("/", "_")


def stop_criteria(stop: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results at which to stop, by their current names."""
    for name, value in stop.items():
        if name not in RESULTS and "/" not in name:
            hint = accepted_names(name, RESULTS)
            raise UsageError(f"stop: there is no result {name!r}; {hint}, or part/of/the/results")
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise UsageError(f"stop: {name} {value!r}; expected a number")
    return {RENAMED.get(name, name): value for name, value in stop.items()}


def configure(config: AlgorithmConfig, settings: Mapping[str, Any]) -> AlgorithmConfig:
    """Return `config` with `settings`."""
    settings = dict(settings)
    ours = isinstance(config, LoopConfig)
    replay = settings.get(REPLAY)
    if not ours:
        accepted = (*vars(config), *settings_as_properties(type(config)), "lambda")
        known = {name for name in accepted if not name.startswith("_")}
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise UsageError(explain_rejected(config.algo_class.__name__, unknown, [], sorted(known)))
        settings.pop(REPLAY, None)
    if _is_ours(replay):
        kind = WITH_OUR_BUFFERS.get(type(config))
        if kind is not None:
            config = kind().environment(config.env)
    try:
        config.update_from_dict(settings)
        if ours or replay is None:
            return config
        if is_search_space(replay):
            config.replay_buffer_config = replay  # each of its points is configured on its own
        else:
            config.training(**{REPLAY: replay})
    except TypeError as error:  # the message begins with the algorithm's name
        raise UsageError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"{config.algo_class.__name__}: {error}") from error
    return config


def _is_ours(replay: Any) -> bool:
    """Return whether replay settings, or a choice of their search space, name a method that RLlib lacks."""
    if is_search_space(replay):
        return any(map(_is_ours, choices(replay)))
    if not isinstance(replay, Mapping):
        return False
    kinds = [replay.get("type")]
    if is_search_space(kinds[0]):
        kinds = list(choices(kinds[0]))
    return any(isinstance(kind, str) and "." not in kind and not hasattr(stock_buffers, kind) for kind in kinds)


def make_default_config(
    run: str, env: str, report: Callable[[str], object], arguments: Mapping[str, Any] | None = None
) -> AlgorithmConfig:
    """Return the default configuration of an algorithm for an environment with some arguments.

    `run` is a name such as ``PPO``; ``SAC`` selects our algorithm, ``SAC-stock`` RLlib's. The environment is a
    Gymnasium id or a name registered with Ray Tune; `report` receives a line if a retired version is replaced.
    """
    name = env
    space = None  # unknown before the environment is made
    if not _global_registry.contains(ENV_CREATOR, env):
        found = find_environment(env, arguments or {})
        name = found.name
        space = found.action_space
        if found.note:
            report(found.note)
    stock = run.removesuffix(STOCK)
    if is_algorithm(run):
        if space is not None:
            check_actions(run, name, space, "--run")
        config = new_config(ALGORITHMS[run].config)
    elif stock in STOCK_ALGORITHMS:
        config = STOCK_ALGORITHMS[stock]()[1]
    else:
        raise UsageError(f"unknown algorithm {run!r}; {accepted_names(run, names())}")
    return config.environment(name)


def names() -> list[str]:
    """Return the names that `make_default_config` accepts, ours first."""
    both = [name for name in ALGORITHMS if name in STOCK_ALGORITHMS]
    only_stock = sorted(STOCK_ALGORITHMS.keys() - ALGORITHMS.keys())
    return [*ALGORITHMS, *only_stock, *(name + STOCK for name in both)]


def read_file(path: Path) -> list[Experiment]:
    """Return the experiments of a file of RLlib's tuned examples, YAML such as ``{name: {run, env, stop, config}}``."""
    contents = read_yaml(path, f"-f {path}")
    if not isinstance(contents, dict) or not contents:
        raise UsageError(f"{path} holds no experiments; expected YAML of the form name: {{run: SAC, env: ...}}")
    experiments = []
    for name, given in contents.items():
        place = f"{path}: {name}"
        check_name(str(name), f"{place}: the experiment")
        experiment = from_file(Experiment, given, place, name=str(name))
        env = experiment.config.pop("env", "")
        experiment.env = experiment.env or env
        if not experiment.env:
            raise UsageError(f"{place} lacks env")
        experiments.append(experiment)
    return experiments


def read_settings(text: str) -> dict[str, Any]:
    """Return a mapping from JSON or YAML, or from a file of either."""
    try:
        source = text
        if not text.lstrip().startswith("{") and os.path.isfile(text):  # also for texts too long for a path
            source = Path(text).read_text()
        try:
            value = json.loads(source)
        except ValueError:
            value = yaml.safe_load(source)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{text!r} is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise UsageError(
            f"{text!r} is not a mapping; expected JSON or YAML such as '{{\"gamma\": 0.95}}', or a file of it"
        )
    return value
