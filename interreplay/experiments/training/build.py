"""Build an algorithm from the settings of the command line."""

from __future__ import annotations

import importlib
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm

from interreplay.environments.own_modules import import_user_class
from interreplay.errors import UsageError
from interreplay.experiments.flags.replay_flags import describe_source
from interreplay.experiments.flags.run_flags import environment_config
from interreplay.experiments.flags.values import select_settings
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.settings import LoopSettings, ReplaySettings


def build(settings: SimpleNamespace, source: Any = None) -> Any:
    """Return the algorithm, ready to train, with the ``evaluation_video`` of its evaluations, or None.

    A `source` of batches must have been built from the same settings.
    """
    try:
        config = configure(settings)
        video = None
        if settings.video_to_tensorboard:
            from interreplay.experiments.evaluation.video import EvaluationVideo

            video = EvaluationVideo(config)
        from interreplay.rllib.algorithms.loop_config import READY_SOURCE

        ready = READY_SOURCE.set(source)
        try:
            algorithm = config.build_algo()
        finally:
            READY_SOURCE.reset(ready)
        algorithm.evaluation_video = video
        return algorithm
    except ValueError as error:
        raise UsageError(str(error)) from error


def new_config(name: str) -> Any:
    """Return the default configuration of an algorithm; `name` is one of `interreplay.rllib`, or ``module:Class``."""
    if ":" not in name:
        return getattr(importlib.import_module("interreplay.rllib"), name)()
    algorithm = import_user_class(name, Algorithm, "trainer")
    config = algorithm.config_class()
    config.algo_class = algorithm
    return config


def algorithm_settings(settings: SimpleNamespace) -> dict[str, Any]:
    """Return the settings of the algorithm itself, including defaults, by the names of its configuration."""
    own = select_settings(vars(settings), ALGORITHMS[settings.trainer].defaults)
    own["train_batch_size_per_learner"] = own.pop("train_batch_size")
    return own


def configure(settings: SimpleNamespace) -> Any:
    """Return RLlib's configuration of a run."""
    s = settings
    config = new_config(ALGORITHMS[s.trainer].config)
    env, arguments = environment_config(vars(s))
    config.environment(env, env_config=arguments)
    of_loop = LoopSettings
    if ALGORITHMS[s.trainer].unrolls:
        config.replay(s.buffer, **s.buffer_args)
    else:
        name, arguments = describe_source(s)
        config.replay(name, **arguments)
        of_loop = ReplaySettings
        config.training(collect=s.updates is None)
    loop = select_settings(vars(s), [setting.name for setting in fields(of_loop)])
    config.training(**algorithm_settings(s) | loop, gamma=s.gamma, anneal_steps=s.total_env_steps)
    config.env_runners(
        num_env_runners=s.num_workers,
        num_envs_per_env_runner=s.num_envs_per_worker,
        rollout_fragment_length=s.rollout_fragment_length,
    )
    config.evaluation(
        evaluation_interval=s.evaluation_interval or None,
        evaluation_duration=s.evaluation_num_episodes,
        evaluation_duration_unit="episodes",
        evaluation_config=config.evaluation_config
        | {"num_envs_per_env_runner": min(s.evaluation_num_envs, s.evaluation_num_episodes)},
    )
    config.learners(num_gpus_per_learner=int(s.device == "cuda"))
    return config.debugging(seed=s.seed, log_level="ERROR")
