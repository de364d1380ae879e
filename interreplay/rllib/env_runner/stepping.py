"""A runner's environments: making them, stepping them, and what happens when one fails."""

from __future__ import annotations

import logging
import time
from typing import Any

from ray.rllib.env.env_runner import ENV_STEP_FAILURE, NUM_ENV_STEP_FAILURES_LIFETIME
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ENV_STEP_TIMER

from interreplay.environments import registration
from interreplay.rllib.env_runner.serial_vector_env import SerialEnvs

logger = logging.getLogger(__name__)


class SteppingRunner(SingleAgentEnvRunner):
    """RLlib's runner with less around each step of its environments."""

    env: Any

    def __init__(self, *, config: Any, **kwargs: Any):
        self._step_seconds, self._timed_steps = 0.0, 0
        super().__init__(config=config, **kwargs)

    @override(SingleAgentEnvRunner)
    def make_env(self) -> None:
        if isinstance(self.config.env, str):
            registration.register(self.config.env)
        super().make_env()
        if SerialEnvs.fits(self.env):
            self.env = SerialEnvs(self.env)

    @override(SingleAgentEnvRunner)
    def _try_env_step(self, actions: Any) -> Any:
        """RLlib's, with one timer per report in place of a timer and a Prometheus counter per step."""
        before = time.perf_counter()
        try:
            results = self.env.step(actions)
        except Exception as error:
            return self._recover(error)
        self._step_seconds += time.perf_counter() - before
        self._timed_steps += 1
        return results

    def _recover(self, error: Exception) -> str:
        """Make environments anew after an error in one, if so configured.

        Raises:
            RuntimeError: When not.
        """
        self.metrics.log_value(NUM_ENV_STEP_FAILURES_LIFETIME, 1, reduce="lifetime_sum")
        if not self.config.restart_failed_sub_environments:
            raise RuntimeError from error  # as RLlib does; without words, so that the cause speaks
        logger.exception("a step of the environment failed; environments are made anew")
        self.make_env()
        return ENV_STEP_FAILURE

    def _report_steps(self) -> None:
        """Log the mean seconds per step since the last call."""
        if self._timed_steps:
            self.metrics.log_value(ENV_STEP_TIMER, self._step_seconds / self._timed_steps)
        self._step_seconds, self._timed_steps = 0.0, 0
