"""A runner's environments: how they are created, stepped and reset, and how their failures are reported."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ENV_RESET_TIMER

from interreplay.environments import registration
from interreplay.environments.atari import learner_view
from interreplay.environments.registration import inner_env_name
from interreplay.environments.spaces import leaves, split_parts
from interreplay.errors import EnvironmentFailure, InterreplayError, copyable, describe_error, is_request_to_end
from interreplay.rllib.env_runner.env_creation import get_creator
from interreplay.rllib.env_runner.runner_state import chain, environments

logger = logging.getLogger(__name__)


class SerialEnvs(VectorWrapper):
    """Gymnasium's `SyncVectorEnv` without its overhead, with infos as a list.

    It steps the same environments and resets them at the same steps. It does not walk through spaces, copy observations
    twice, or convert infos into a dictionary of columns and back. With one MuJoCo environment, that took longer than
    the physics.

    Args:
        env: A vector environment that `fits`. It is kept, because gymnasium closes environments inside a wrapper that
            is garbage-collected.

    Attributes:
        seeds: Seeds of the next episodes, used in the order in which `step` resets environments; None for no seeds.
    """

    def __init__(self, env: Any):
        super().__init__(env)
        self.seeds: Iterator[int] | None = None
        self._vector = env.unwrapped
        self._space = env.single_observation_space
        self._has_nested_actions = isinstance(env.single_action_space, Dict | Tuple)
        # Checked because numpy would accept another shape silently.
        self._shape = (env.num_envs, *self._space.shape) if isinstance(self._space, Box) else None
        self._integer_parts = integer_parts(self._space)

    @staticmethod
    def fits(env: Any) -> bool:
        """Return whether `env` is a `SyncVectorEnv` and gymnasium converts its infos into a list."""
        if type(env) is not DictInfoToList or type(env.env) is not SyncVectorEnv:
            return False
        return env.env.autoreset_mode == AutoresetMode.NEXT_STEP

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Reset every environment; see gymnasium. `seed` is the first seed, one for each environment, or None."""
        envs = self._vector.envs
        seeds = seed
        if seed is None:
            seeds = [None] * len(envs)
        elif isinstance(seed, int):
            seeds = [seed + i for i in range(len(envs))]
        results = []
        for env, one in zip(envs, seeds, strict=True):
            results.append(env.reset(seed=one, options=options))
        for env, result in zip(envs, results, strict=True):
            if found := _find_malformed_reset(result, self._space, self._integer_parts):
                raise EnvironmentFailure(_get_env_name(env), found)
        observations, infos = zip(*results, strict=True)
        self._vector._autoreset_envs = np.zeros(len(envs), dtype=bool)
        return self._concatenate(observations), list(infos)

    def step(self, actions: Any) -> Any:
        """Step every environment with its action of ``(n, ...)``, or reset it if its episode was over.

        Returns:
            Observations, rewards ``(n,)``, terminated and truncated ``(n,)``, and a list of infos.
        """
        over = self._vector._autoreset_envs
        if self._has_nested_actions:
            actions = iterate(self._vector.action_space, actions)
        results = []
        for i, (env, action) in enumerate(zip(self._vector.envs, actions, strict=True)):
            if over[i]:
                observation, info = env.reset() if self.seeds is None else env.reset(seed=next(self.seeds))
                results.append((observation, 0.0, False, False, info))
            else:
                results.append(env.step(action))
        try:
            observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
            ended = np.array(terminated, dtype=bool)
            cut = np.array(truncated, dtype=bool)
            column = np.array(rewards)
            has_numbers = column.dtype.kind in "biuf"
            column = column.astype(np.float64, copy=False)
            batch = self._concatenate(observations)
        except (TypeError, ValueError):
            self._reject_malformed(results)
            raise
        well_formed = has_numbers and column.ndim == 1 and ended.ndim == 1 and cut.ndim == 1
        if self._integer_parts and any(_find_unstorable(each, self._integer_parts) for each in observations):
            well_formed = False
        if not well_formed or (self._shape is not None and batch.shape != self._shape):
            self._reject_malformed(results)
        self._vector._autoreset_envs = ended | cut
        return batch, column, ended, cut, list(infos)

    def _concatenate(self, observations: Sequence[Any]) -> Any:
        if isinstance(self._space, Box):
            return np.array(observations, dtype=self._space.dtype)
        return concatenate(self._space, observations, create_empty_array(self._space, len(observations)))

    def _reject_malformed(self, results: Sequence[Any]) -> None:
        """Raise EnvironmentFailure for the first environment that returned values that cannot be stored."""
        for env, result in zip(self._vector.envs, results, strict=True):
            if found := _find_malformed(result, self._space, self._integer_parts):
                raise EnvironmentFailure(_get_env_name(env), found)


def integer_parts(space: Any) -> dict[str, Any]:
    """Return the parts of an observation space that contain integers, by name."""
    found = {}
    for name, part in leaves(space).items():
        if np.dtype(part.dtype).kind in "biu":
            found[name] = part
    return found


def _get_env_name(env: Any) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__


def _find_malformed_reset(result: Any, space: Any, integer_parts: Mapping[str, Any]) -> str | None:
    if not isinstance(result, tuple) or len(result) != 2:
        return f"returned {_count_values(result)} in reset; expected two: observation, info"
    return _find_misshapen(result[0], space) or _find_unstorable(result[0], integer_parts)


def _count_values(result: Any) -> str:
    """Return the number of values that an environment returned; the type of a result that is not a tuple."""
    return f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"


def _find_malformed(result: Any, space: Any, integer_parts: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the result of an environment's step, or None."""
    if not isinstance(result, tuple) or len(result) != 5:
        expected = "five: observation, reward, terminated, truncated, info"
        return f"returned {_count_values(result)} in step; expected {expected}"
    observation, reward, terminated, truncated, _ = result
    if found := _find_misshapen(observation, space):
        return found
    if found := _find_unstorable(observation, integer_parts):
        return found
    if reward is None or isinstance(reward, str | bytes) or np.shape(reward) != ():
        return f"returned the reward {reward!r}; expected one number"
    if np.shape(terminated) != () or np.shape(truncated) != ():
        return f"returned terminated {terminated!r} and truncated {truncated!r}; expected one bool each"
    return None


def _find_misshapen(observation: Any, space: Any) -> str | None:
    """Return which Box of an observation has another shape than in its space, or None."""
    given = {"": observation} if isinstance(space, Box) else split_parts(observation)
    for name, part in leaves(space).items():
        if name not in given or not isinstance(part, Box):  # lists for tuples have no names
            continue
        which = f"the part {name!r} of the observation with" if name else "an observation of"
        try:
            shape = np.shape(given[name])
        except ValueError:  # a list of lists of several lengths
            return f"returned {which} several lengths; its observation space has {part.shape}"
        if shape != part.shape:
            return f"returned {which} shape {shape}; its observation space has {part.shape}"
    return None


def _find_unstorable(observation: Any, integer_parts: Mapping[str, Any]) -> str | None:
    """Return why the integers of an observation do not fit the spaces of its parts that contain integers, or None."""
    if not integer_parts:
        return None
    given = split_parts(observation)
    for name, space in integer_parts.items():
        if name not in given:  # lists are accepted for tuples, and their parts have no names
            continue
        values = np.asarray(given[name])
        which = f"the part {name!r} of the observation" if name else "the observation"
        if isinstance(space, Discrete | MultiDiscrete):
            choices = space.n if isinstance(space, Discrete) else space.nvec
            well_formed = values.dtype.kind in "biu" and values.shape == space.shape
            if not well_formed or not np.all((values >= space.start) & (values < space.start + choices)):
                return f"returned {which} {values}, which is not in its observation space {space}"
        elif values.dtype != space.dtype and not np.array_equal(values, values.astype(space.dtype)):
            return f"returned {which} {values}, which its observation space of {space.dtype} cannot hold"
    return None


class SteppingRunner(SingleAgentEnvRunner):
    """RLlib's runner with less overhead around each step of its environments."""

    config: Any
    env: Any
    module: Any
    _has_learner_view = False
    _integer_parts: Mapping[str, Any]

    def __init__(self, *, config: Any, **kwargs: Any):
        self._step_seconds = 0.0
        self._timed_steps = 0
        self._max_episode_steps: int | None = None
        self._warned_of_cut = False
        super().__init__(config=config, **kwargs)

    @override(SingleAgentEnvRunner)
    def make_env(self) -> None:
        config = self.config
        if isinstance(config.env, str):
            registration.register(config.env)
        creator = get_creator(config.env)
        if creator is not None:  # it creates classes according to the signatures of their constructors
            self.config = config.copy(copy_frozen=False)
            self.config.env = creator
        try:
            super().make_env()
        finally:
            self.config = config
        mode = self.env.unwrapped.metadata.get("autoreset_mode")
        if mode in (AutoresetMode.DISABLED, AutoresetMode.SAME_STEP):
            raise ValueError(f"autoreset_mode of the vector environment {self.env_name} is {mode}; expected NEXT_STEP")
        made = environments(self.env)
        # Environments in other processes are not accessible; without a learner's view, their infos lack it.
        self._has_learner_view = all(hasattr(env.unwrapped, "has_learner_view") for env in made)
        self._integer_parts = {}
        if SerialEnvs.fits(self.env):
            self.env = SerialEnvs(self.env)  # checks its observations itself
        else:
            space = self.env.single_observation_space
            self._integer_parts = integer_parts(space)
            self._batch_space = batch_space(space, self.num_envs)

    def _check_observations(self, observations: Any) -> None:
        """Reject integers of a vector environment that do not fit its observation space."""
        if not self._integer_parts:
            return
        for observation in iterate(self._batch_space, observations):
            if found := _find_unstorable(observation, self._integer_parts):
                raise EnvironmentFailure(self.env_name, found)

    @property
    def env_name(self) -> str:
        """The environment's name for messages."""
        return inner_env_name(self.config.env, self.config.env_config)

    @override(SingleAgentEnvRunner)
    def _try_env_step(self, actions: Any) -> Any:
        """Step like RLlib, with one timer per report instead of a timer and a Prometheus counter per step."""
        before = time.perf_counter()
        try:
            results = self.env.step(actions)
            self._check_observations(results[0])
        except BaseException as error:  # an environment can also call sys.exit
            self._fail(error, "step")
        self._step_seconds += time.perf_counter() - before
        self._timed_steps += 1
        return results

    @override(SingleAgentEnvRunner)
    def _try_env_reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Reset like RLlib, and report errors on one line."""
        try:
            with self.metrics.log_time(ENV_RESET_TIMER):
                results = self.env.reset(seed=seed, options=options)
            self._check_observations(results[0])
        except BaseException as error:
            self._fail(error, "reset")
        return results

    @override(SingleAgentEnvRunner)
    def stop(self) -> None:
        """Close the environments; the run is over, so errors are only logged."""
        try:
            super().stop()
        except BaseException as error:
            if is_request_to_end(error):
                raise
            logger.warning("closing %s failed: %s", self.env_name, describe_error(error))
            layer = self.env
            while layer is not None:  # otherwise gymnasium closes it again when it is deleted, and prints the error
                layer.closed = True
                layer = getattr(layer, "env", None)

    def _fail(self, error: BaseException, where: str) -> NoReturn:
        """Raise EnvironmentFailure with the environment's error on one line, or Ctrl-C; the next step resets."""
        self._needs_initial_reset = True
        if is_request_to_end(error):
            raise error
        if isinstance(error, EnvironmentFailure):
            raise EnvironmentFailure(self.env_name, error.cause_text)
        text = describe_error(error)
        if isinstance(error, InterreplayError):
            text = " ".join(str(error).split())
        suffix = "" if where == "step" else f" in {where}"
        raise EnvironmentFailure(self.env_name, f"raised {text}{suffix}") from copyable(error)

    def _select_stored(self, infos: Any, rewards: Any, terminated: Any) -> tuple[Any, Any]:
        """Return the rewards and terminations ``(n,)`` to store; an environment may report separate ones for that."""
        if not self._has_learner_view:
            return rewards, terminated
        rewards = rewards.astype(np.float64)
        terminated = terminated.copy()
        for i, info in enumerate(infos):
            rewards[i], terminated[i] = learner_view(info, rewards[i], terminated[i])
        return rewards, terminated

    def _cut_long(self, long: np.ndarray) -> None:
        """Begin other episodes in the environments `long` ``(n,)`` at the next step; warn once of a default limit."""
        if not self._warned_of_cut and self.config.evaluation_max_episode_steps is None:
            logger.warning(
                "an episode of %s was cut after %d steps of evaluation; if episodes may never end, set a limit: "
                "--horizon N, in Python env_config={'max_episode_steps': N} or evaluation_max_episode_steps",
                self.env_name,
                self._max_episode_steps,
            )
        self._warned_of_cut = True
        if type(self.env.unwrapped) is SyncVectorEnv:
            self.env.unwrapped._autoreset_envs |= long
        else:
            self._needs_initial_reset = True

    @override(SingleAgentEnvRunner)
    def apply(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function with this runner; the caller gets its errors. RLlib ends the process instead."""
        return func(self, *args, **kwargs)


def has_time_limit(env: Any) -> bool:
    """Return whether every episode of a vector environment ends by a known time limit."""
    one = next(iter(environments(env)), env)
    if getattr(one.unwrapped, "ends_by_time", False):
        return True
    for layer in (env, *chain(one)):
        spec = getattr(layer, "spec", None)
        if isinstance(layer, TimeLimit) or (spec is not None and spec.max_episode_steps):
            return True
    return False
