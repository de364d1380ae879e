"""A runner's environments: making them, stepping them, and what happens when one fails."""

from __future__ import annotations

import logging
import time
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from ray.rllib.env.env_runner import ENV_STEP_FAILURE, NUM_ENV_STEP_FAILURES_LIFETIME
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ENV_RESET_TIMER, ENV_STEP_TIMER

from interreplay.acting.batching import as_column
from interreplay.environments import registration
from interreplay.environments.atari.learner_view import has_learner_view, learner_view
from interreplay.environments.wrapped import own_name
from interreplay.errors import EnvironmentFailure, InterreplayError, copyable, in_words, is_request_to_end
from interreplay.rllib.env_runner.env_creation import creator_of
from interreplay.rllib.env_runner.env_state import chain
from interreplay.rllib.env_runner.runner_state import environments
from interreplay.rllib.env_runner.serial_vector_env import SerialEnvs

logger = logging.getLogger(__name__)
STEPS_OF_ENDLESS_EPISODES = 10_000


class SteppingRunner(SingleAgentEnvRunner):
    """RLlib's runner with less around each step of its environments."""

    config: Any
    env: Any
    _longest: int | None
    _has_learner_view = False

    def __init__(self, *, config: Any, **kwargs: Any):
        self._step_seconds, self._timed_steps, self._failures_in_a_row = 0.0, 0, 0
        self._resets_in_same_step, self._longest, self._warned = False, None, False
        self._default_dtype = torch.get_default_dtype()
        super().__init__(config=config, **kwargs)

    @override(SingleAgentEnvRunner)
    def make_env(self) -> None:
        if isinstance(self.config.env, str):
            registration.register(self.config.env)
        try:
            self._make_env()
        except BaseException as error:
            if isinstance(error, Exception) or is_request_to_end(error):
                raise
            self._fail(error, "make")
        self._check_default_dtype()
        mode = self.env.unwrapped.metadata.get("autoreset_mode")
        if mode == AutoresetMode.DISABLED:
            raise ValueError(
                f"autoreset_mode of the vector environment {self.env_name} is DISABLED; expected NEXT_STEP or "
                "SAME_STEP, nobody else resets its environments"
            )
        self._resets_in_same_step = mode == AutoresetMode.SAME_STEP
        made = environments(self.env)
        self._has_learner_view = bool(made) and all(map(has_learner_view, made))
        if SerialEnvs.fits(self.env):
            self.env = SerialEnvs(self.env)

    def _make_env(self) -> None:
        """Make environments as RLlib does, classes by what their constructors take."""
        creator = creator_of(self.config.env)
        if creator is None:
            super().make_env()
            return
        config = self.config
        self.config = config.copy(copy_frozen=False)
        self.config.env = creator
        try:
            super().make_env()
        finally:
            self.config = config

    @property
    def env_name(self) -> str:
        """The environment's name for messages."""
        return own_name(self.config.env, self.config.env_config)

    @override(SingleAgentEnvRunner)
    def _try_env_step(self, actions: Any) -> Any:
        """Do as RLlib's does, with one timer per report in place of a timer and a Prometheus counter per step."""
        before = time.perf_counter()
        try:
            results = self.env.step(actions)
            self._check_default_dtype()
        except BaseException as error:  # an environment can also call sys.exit
            return self._recover(error)
        self._step_seconds += time.perf_counter() - before
        self._timed_steps += 1
        self._failures_in_a_row = 0
        return results

    @override(SingleAgentEnvRunner)
    def _try_env_reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Do as RLlib's does, with an end to trying again."""
        while True:
            try:
                with self.metrics.log_time(ENV_RESET_TIMER):
                    result = self.env.reset(seed=seed, options=options)
                self._check_default_dtype()
                return result
            except BaseException as error:
                self._recover(error, "reset")

    def _check_default_dtype(self) -> None:
        """Refuse environments that change torch's default dtype, after restoring it.

        Raises:
            EnvironmentFailure: The environment has changed it.
        """
        found = torch.get_default_dtype()
        if found is not self._default_dtype:
            torch.set_default_dtype(self._default_dtype)
            cause = f"set torch's default dtype to {found}; expected that it stays {self._default_dtype}"
            raise EnvironmentFailure(self.env_name, cause)

    @override(SingleAgentEnvRunner)
    def stop(self) -> None:
        """Close the environments; the run is over, so an error in that is only logged."""
        try:
            super().stop()
        except BaseException as error:
            if is_request_to_end(error):
                raise
            logger.warning("closing %s failed: %s", self.env_name, in_words(error))

    def _recover(self, error: BaseException, where: str = "step") -> str:
        """Recreate the environments after an error in one, if so configured, a limited number of times in a row.

        Raises:
            EnvironmentFailure: Recreating is not configured, has failed too often in a row, or is impossible.
        """
        if is_request_to_end(error):
            raise error
        self._needs_initial_reset = True
        if where == "step":
            self.metrics.log_value(NUM_ENV_STEP_FAILURES_LIFETIME, 1, reduce="lifetime_sum")
        self._failures_in_a_row += 1
        again = self._failures_in_a_row <= self.config.num_consecutive_env_runner_failures_tolerance
        if not self.config.restart_failed_sub_environments or not again:
            self._fail(error, where)
        logger.exception("a %s of the environment failed; environments are made anew", where)
        try:
            self.make_env()
        except BaseException as made:
            if is_request_to_end(made):
                raise
            self._fail(made, "make")
        return ENV_STEP_FAILURE

    def _fail(self, error: BaseException, where: str) -> NoReturn:
        """Raise EnvironmentFailure with what the environment raised, on one line."""
        if isinstance(error, EnvironmentFailure):
            raise EnvironmentFailure(self.env_name, error.cause_text)
        text = " ".join(str(error).split()) if isinstance(error, InterreplayError) else in_words(error)
        raise EnvironmentFailure(
            self.env_name, f"raised {text}" + ("" if where == "step" else f" in {where}")
        ) from copyable(error)

    def _ends(self, next_obs: Any, infos: Any, over: np.ndarray) -> tuple[Any, Any]:
        """Return what episodes ended with, where the environments have already begun others in the same step.

        Args:
            next_obs: Observations after the step as columns, first ones where an episode was over.
            infos: Of each environment.
            over: Where an episode was over ``(n,)``.

        Raises:
            EnvironmentFailure: When the vector environment does not give it.
        """
        ends = {k: v.copy() for k, v in next_obs.items()} if isinstance(next_obs, dict) else next_obs.copy()
        last = list(infos)
        for i in np.flatnonzero(over):
            if "final_obs" not in infos[i]:
                cause = "resets in the same step (autoreset_mode SAME_STEP) and gives no final_obs in its infos"
                raise EnvironmentFailure(self.env_name, f"{cause}; expected it there, or autoreset_mode NEXT_STEP")
            final = as_column(infos[i]["final_obs"])
            for name, part in final.items() if isinstance(final, dict) else ((None, final),):
                (ends if name is None else ends[name])[i] = part
            last[i] = infos[i].get("final_info", infos[i])
        return ends, last

    def _stored(self, infos: Any, rewards: Any, terminated: Any) -> tuple[Any, Any]:
        """Return rewards and ends ``(n,)`` to store, where an environment has others than those that it reports."""
        return learner_view(infos, rewards, terminated) if self._has_learner_view else (rewards, terminated)

    def _cut_long(self, long: np.ndarray) -> None:
        """Begin other episodes in the environments `long` ``(n,)`` at the next step, and warn once of it."""
        if not self._warned:
            logger.warning(
                "an episode of %s was cut after %d steps of evaluation; where they may never end, give them a limit: "
                "--horizon N, in Python env_config={'max_episode_steps': N} or evaluation_max_episode_steps",
                *(self.env_name, self._longest),
            )
        self._warned = True
        if type(self.env.unwrapped) is SyncVectorEnv and not self._resets_in_same_step:
            self.env.unwrapped._autoreset_envs |= long
        else:
            self._needs_initial_reset = True

    @override(SingleAgentEnvRunner)
    def apply(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Do as RLlib's does, which ends the process after an error; raise it where nobody restarts it."""
        try:
            return func(self, *args, **kwargs)
        except EnvironmentFailure as failure:
            if not self.config.restart_failed_env_runners:
                raise
            return super().apply(_raise, failure)

    def _report_steps(self) -> None:
        """Log the mean seconds per step since the last call."""
        if self._timed_steps:
            self.metrics.log_value(ENV_STEP_TIMER, self._step_seconds / self._timed_steps)
        self._step_seconds, self._timed_steps = 0.0, 0


def _raise(_: Any, error: Exception) -> NoReturn:
    raise error


def has_time_limit(env: Any) -> bool:
    """Return whether every episode of a vector environment ends by a time limit that is known."""
    one = next(iter(environments(env)), env)
    specs = [getattr(layer, "spec", None) for layer in (one, env)]
    limited = any(spec is not None and spec.max_episode_steps for spec in specs)
    limited = limited or getattr(one.unwrapped, "ends_by_time", False)
    return limited or any(isinstance(layer, TimeLimit) for layer in chain(one))


def longest_episode(env: Any, setting: int | None) -> int | None:
    """Return the steps after which an episode of an evaluation is cut, None for never.

    Args:
        env: The vector environment.
        setting: What is configured; None for 10,000 where the environment has no limit of its own.
    """
    return STEPS_OF_ENDLESS_EPISODES if setting is None and not has_time_limit(env) else setting
