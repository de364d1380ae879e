"""Load the algorithm of a checkpoint, of this package or of RLlib, and play episodes without exploration.

The episodes can be recorded as a video or a dataset. `evaluate` implements `interreplay evaluate`, `enjoy.py` and
`rllib evaluate`.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import find_highest_version, parse_env_id
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.tune.registry import ENV_CREATOR, _global_registry

from interreplay.environments import registration
from interreplay.environments.own_modules import search_current_folder
from interreplay.environments.registration import inner_env_name
from interreplay.errors import CheckpointError, UsageError, describe_error, exits_as_errors
from interreplay.experience.offline_data import minari_episodes
from interreplay.experiments.evaluation.video import Camera, VideoFile, check_rendering, check_video
from interreplay.experiments.flags.values import drop_settings
from interreplay.experiments.process.machine import format_count
from interreplay.experiments.process.progress import format_return
from interreplay.rllib.actor_learner.a3c import A3CConfig
from interreplay.rllib.checkpoints import load_config
from interreplay.rllib.env_runner.runner import BatchEnvRunner
from interreplay.rllib.env_runner.runner_state import read_success
from interreplay.rllib.host import needs_ray
from interreplay.rllib.ray_session import hide_messages, start_ray
from interreplay.runs import state_files
from interreplay.runs.checkpoints import CHECKPOINT, find, find_best, read_best, read_description

CONSTRUCTOR = "class_and_ctor_args.pkl"
"""File in which RLlib's own algorithms store their configuration."""
EPISODES = 10
VIDEO_EPISODES = 3


def read_config(folder: Path, trusted: bool = False) -> AlgorithmConfig:
    """Return the configuration stored in a checkpoint.

    RLlib's own algorithms store pickles, whose loading may execute code; they must be trusted.
    """
    if (folder / CHECKPOINT).exists():
        resolved = state_files.resolve(folder, trusted)
        missing = [name for name in ("env", "env_config") if name in read_description(resolved)["not_stored"]]
        if missing:
            raise CheckpointError(
                f"the checkpoint {folder} does not store {' and '.join(missing)}, which is not plain data; "
                "in Python, from_checkpoint(path, config=...) takes the configuration again"
            )
        config = load_config(resolved, trusted)
    elif not trusted:
        raise CheckpointError(
            f"the checkpoint {folder} was made by RLlib's own algorithms, and loading its pickles can execute code; "
            "--trust_checkpoint loads it"
        )
    else:
        try:
            with (folder / CONSTRUCTOR).open("rb") as file:
                (state,) = pickle.load(file)["ctor_args_and_kwargs"][0]
            config = state["class"].from_state(state)
        except Exception as error:  # damaged bytes, or an error in the code that they name
            raise CheckpointError(f"the checkpoint {folder} cannot be read: {describe_error(error)}") from error
    if isinstance(config.env, str):
        check_environment(inner_env_name(config.env, config.env_config), trusted)
    return config


def build_algorithm(config: AlgorithmConfig) -> Algorithm:
    """Return the algorithm of a configuration."""
    if needs_ray(config):
        start_ray(1)
    try:
        return config.build_algo()
    except Exception as error:  # the environment and RLlib raise errors of any class
        name = inner_env_name(config.env, config.env_config)
        reason = describe_error(error)[:300]
        raise UsageError(f"{config.algo_class.__name__} on {name} cannot be built here: {reason}") from error


def restore(algorithm: Algorithm, folder: Path) -> None:
    """Load a checkpoint into an algorithm."""
    parts: list[str | None] = [None]
    if (folder / CHECKPOINT).exists() and "replay_buffer_config" in read_description(folder).get("not_stored", ()):
        parts = ["learner_group", "env_runner"]  # the replay method has arguments that are not plain data
    try:
        for part in parts:
            algorithm.restore_from_path(str(folder), component=part)
    except CheckpointError:
        raise
    except Exception as error:  # a file is missing, or an array has another shape
        raise CheckpointError(f"the checkpoint {folder} cannot be loaded: {describe_error(error)[:300]}") from error


def check_environment(name: str, trusted: bool = False) -> None:
    """Check that the environment of a checkpoint, such as ``module:Env-v0``, is registered here, and import its module.

    A trusted id may be unknown to Gymnasium; RLlib imports it as a class.
    """
    if _global_registry.contains(ENV_CREATOR, name):
        return
    module, _, bare = name.rpartition(":")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise UsageError(
            f"the checkpoint's environment {name!r} names a module of the standard library; expected another module"
        )
    search_current_folder()
    missing = registration.register(name)
    if missing:
        raise UsageError(f"the checkpoint's environment {name!r} needs: pip install 'interreplay[{missing}]'")
    try:
        with exits_as_errors():
            if module:
                importlib.import_module(module)
            namespace, kind, version = parse_env_id(bare)
            known = bare in gym.registry or (version is None and find_highest_version(namespace, kind) is not None)
            if not known and not trusted:
                raise gym.error.NameNotFound(bare)
    except gym.error.Error:
        raise UsageError(
            f"the checkpoint's environment {name!r} is not registered with Gymnasium here; expected a registered id, "
            "or module:Env-v0 with a module that registers it"
        ) from None
    except Exception as error:  # code of the user
        reason = describe_error(error)
        raise UsageError(
            f"the checkpoint's environment {name!r} cannot be imported ({reason}); put its folder on PYTHONPATH"
        ) from None


class Recorder(gym.Wrapper):
    """Environment that keeps the observations it returns and the actions it receives.

    `minari.DataCollector` does the same but requires JAX.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        minari_episodes.check_keys(self.observation_space)
        minari_episodes.check_keys(self.action_space)
        self._episodes: list[list[Any]] = []
        self._observations: list[Any] = []
        self._steps: list[tuple[Any, float, bool, bool]] = []

    def reset(self, **options: Any) -> Any:
        self._end_episode()
        obs, info = self.env.reset(**options)
        self._observations = [copy.deepcopy(obs)]  # an environment may change it in place
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._observations.append(copy.deepcopy(obs))
        self._steps.append((action, float(reward), bool(terminated), bool(truncated)))
        return obs, reward, terminated, truncated, info

    def _end_episode(self) -> None:
        if self._steps:
            self._episodes.append([self._observations, *zip(*self._steps, strict=True)])
        self._steps = []

    def write(self, name: str, algorithm: str) -> str:
        """Write the episodes as the dataset `name`, and return the name with the numbers of episodes and steps."""
        self._end_episode()
        episodes = []
        for observations, actions, rewards, terminations, truncations in self._episodes:
            episodes.append(
                {
                    "observations": _nested(observations, self.observation_space),
                    "actions": _nested(actions, self.action_space),
                    "rewards": list(rewards),
                    "terminations": list(terminations),
                    "truncations": [*truncations[:-1], not terminations[-1]],
                }
            )
        spaces = (self.observation_space, self.action_space)
        return minari_episodes.write(name, episodes, spaces, self.env.spec, algorithm)


def _nested(values: Any, space: gym.Space) -> Any:
    """Return values of many steps as arrays, nested as their space and with its dtypes."""
    if isinstance(space, gym.spaces.Dict):
        found = {}
        for key, part in space.items():
            found[key] = _nested([value[key] for value in values], part)
        return found
    if isinstance(space, gym.spaces.Tuple):
        return tuple(map(_nested, zip(*values, strict=True), space))
    return np.asarray(values).astype(space.dtype)


@dataclass(frozen=True)
class Episode:
    """A finished episode: sum of rewards, number of steps, and success if the environment reports it."""

    ret: float
    length: int
    success: bool | None


@dataclass(frozen=True)
class PlaybackResult:
    """Played episodes, and a text about the files written, which ends the summary."""

    episodes: list[Episode]
    written: str = ""

    def summary(self) -> str:
        """Return a line: mean and standard deviation of returns and lengths, success rate, files written."""
        returns = np.array([episode.ret for episode in self.episodes])
        lengths = np.array([episode.length for episode in self.episodes])
        successes = [episode.success for episode in self.episodes if episode.success is not None]
        line = (
            f"{format_count(len(returns), 'episode')}: "
            f"return {format_return(returns.mean())} ± {format_return(returns.std())}, "
            f"length {lengths.mean():.0f} ± {lengths.std():.0f} steps"
        )
        if successes:
            line += f", success rate {np.mean(successes):.2f}"
        return line + self.written


def watch(
    checkpoint: Path,
    on_episode: Callable[[Episode], object] = id,
    *,
    run: str | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    video: Path | None = None,
    video_episodes: int | None = None,
    render: bool = False,
    record_data: str | None = None,
    trust_checkpoint: bool = False,
) -> PlaybackResult:
    """Play whole episodes with the mode of the policy in the newest checkpoint of a folder; arguments are as the flags.

    Episode i is reset with `seed` + i; without a seed, the random state of the checkpoint is used.
    """
    if episodes is None and steps is None:
        episodes = EPISODES
    film = VideoFile(video, video_episodes or VIDEO_EPISODES) if video else None
    if record_data:
        minari_episodes.check_new(record_data)
    folder = find(checkpoint)[0]
    config = read_config(folder, trust_checkpoint)
    made_by = config.algo_class.__name__.removeprefix("Stock")
    if run is not None and run.removesuffix("-stock") != made_by:
        raise UsageError(f"the checkpoint {folder} was made by {made_by}, not {run}; leave --run out")
    algorithm = build_algorithm(playback_config(config, film, render))
    finished: list[Episode] = []
    written = ""
    interrupted = True
    try:
        restore(algorithm, folder)
        if record_data:
            environments = algorithm.env_runner.env.unwrapped.envs
            recorder = Recorder(environments[0])
            environments[0] = recorder
        for played in _play(algorithm.env_runner, episodes or math.inf, steps or math.inf, seed):
            infos = played.get_infos(-1) or {}
            success = read_success(infos)
            if success is not None:
                success = bool(success)
            finished.append(Episode(float(played.get_return()), len(played), success))
            on_episode(finished[-1])
            if film is not None:
                film.end_episode()
        if record_data:
            written = f"; dataset: {recorder.write(record_data, made_by)}"
        interrupted = False
    finally:
        algorithm.stop()
        if film is not None:
            film.close(interrupted)
            written = f"; video: {film.summary()}{written}"
    return PlaybackResult(finished, written)


def _play(runner: Any, most_episodes: float, most_steps: float, first_seed: int | None) -> Iterator[Any]:
    """Yield finished episodes until the requested number of episodes or steps is reached."""
    played = 0
    steps = 0
    seed = None
    while played < most_episodes and steps < most_steps:
        if first_seed is not None:
            seed = first_seed + played
        if not isinstance(runner, BatchEnvRunner):
            # RLlib's runners reset with the seed of their configuration at every call; None keeps the random state.
            runner._seed = seed
            runner._needs_initial_reset = True
        elif seed is not None:
            runner.seed_next_reset(seed)
        (episode,) = runner.sample(num_episodes=1, explore=False)
        played += 1
        steps += len(episode)
        yield episode


def playback_config(config: AlgorithmConfig, video: VideoFile | None = None, window: bool = False) -> AlgorithmConfig:
    """Return a copy of `config` with one environment in this process, filmed or shown on the screen."""
    config = config.copy(copy_frozen=False)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=1, gym_env_vectorize_mode="sync")
    config.evaluation(evaluation_interval=None, evaluation_num_env_runners=0, evaluation_parallel_to_training=False)
    config.evaluation(evaluation_duration=1)  # not "auto", which requires parallel evaluations
    config.learners(num_learners=0)
    if not torch.cuda.is_available():
        config.learners(num_gpus_per_learner=0)
    if isinstance(config, A3CConfig):
        config.training(train_batch_size_per_learner=1)  # one environment
    if getattr(config, "torch_compile", False):
        config.update_from_dict({"torch_compile": False})  # requires a compiler
    config.callbacks_on_episode_step = None
    if window:
        config.environment(env_config={**config.env_config, "render_mode": "human"})
    if video is not None:
        config.environment(env_config={**config.env_config, "render_mode": "rgb_array"})
        video.fps = check_rendering(config)
        config.callbacks(on_episode_step=Camera(video.add, video.next_step_is_shown))
    return config


def evaluate(given: argparse.Namespace, notify: Callable[[str], object]) -> None:
    """Play episodes and report each of them, then their means and the files written."""
    if given.video:
        check_video(given.video)
    if given.best:
        checkpoint = find_best(given.checkpoint)
        notify(f"{checkpoint}, {read_best(checkpoint)}")
    else:
        found = find(given.checkpoint)
        checkpoint = found[0]
        if found != [given.checkpoint.absolute()]:
            notify(f"{checkpoint}, the newest of {format_count(len(found), 'checkpoint')}")
    hide_messages()
    numbers = count(1)

    def report(episode: Episode) -> None:
        success = {None: "", True: ", success", False: ", no success"}[episode.success]
        notify(f"episode {next(numbers)}: return {format_return(episode.ret)} in {episode.length} steps{success}")

    flags = drop_settings(vars(given), ("checkpoint", "best", "command"))
    notify(watch(checkpoint, report, **flags).summary())
