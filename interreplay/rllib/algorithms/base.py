"""The base of our algorithms: differences from RLlib's algorithm outside of the training loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import EVALUATION_RESULTS
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from interreplay.rllib.checkpoints.algorithm import CheckpointedAlgorithm
from interreplay.rllib.env_runner.remote import runner_errors
from interreplay.rllib.env_runner.stepping import has_time_limit
from interreplay.rllib.host import WithoutResultFolder


class BaseAlgorithm(CheckpointedAlgorithm, WithoutResultFolder):
    """RLlib's algorithm with evaluations that can be interrupted and results of the current iteration only.

    Attributes:
        stop_requested: Whether `train()` and evaluations are to return soon.
    """

    stop_requested: bool
    env_runner_group: EnvRunnerGroup
    learner_group: LearnerGroup
    metrics: MetricsLogger
    env_runner: Any
    eval_env_runner: Any
    _time_total: float  # Ray's attribute, the source of `time_total_s`
    _iteration_began: float | None = None

    @property
    def elapsed_seconds(self) -> float:
        """Seconds spent in `train()` over the whole run, including earlier runs and the current iteration."""
        if self._iteration_began is None:
            return self._time_total
        return self._time_total + time.monotonic() - self._iteration_began

    def __repr__(self) -> str:
        """Return RLlib's description; only the class if a configuration was rejected, so that Ray shows why."""
        return type(self).__name__ if self.config is None else super().__repr__()

    @override(Algorithm)
    def train(self) -> dict[str, Any]:
        """Return the result of one iteration; the time of an interrupted iteration counts in the next result."""
        self._iteration_began = time.monotonic()
        try:
            return super().train()
        except BaseException:
            self._time_total = self.elapsed_seconds
            raise
        finally:
            self._iteration_began = None

    @override(Algorithm)
    def _create_local_replay_buffer_if_necessary(self, config: Any) -> None:
        """Create none: RLlib accepts only its own classes, and ours is created once the spaces are known."""

    def request_stop(self) -> None:
        """Let the running `train()` return after the current batches; safe in signal handlers and threads.

        An evaluation in this process ends between two steps, and its result is dropped.
        """
        self.stop_requested = True
        self.interrupt_evaluation()

    def interrupt_evaluation(self, only_endless: bool = False) -> None:
        """Let an evaluation in this process end between two steps; its result is dropped.

        Args:
            only_endless: Do nothing if the environment has a time limit, which ends the evaluation soon.
        """
        runner = self._evaluating_runner()
        if runner is not None and not (only_endless and has_time_limit(runner.env)):
            runner.interrupt()

    def _evaluating_runner(self) -> Any:
        """Return the runner that evaluates in this process, None if other processes do."""
        runner: Any = self.env_runner if self.eval_env_runner_group is None else self.eval_env_runner
        return runner if runner is not None and runner.env is not None else None

    @override(Algorithm)
    def _run_one_evaluation(self, parallel_train_future: Any = None) -> dict[str, Any]:
        if self.stop_requested:
            return {}
        with runner_errors():
            results = super()._run_one_evaluation(parallel_train_future)
        runner = self._evaluating_runner()
        return {} if runner is not None and runner.interrupted else results

    def restore_lost_runners(self) -> bool:
        """Take restarted remote runners into service, as RLlib does between iterations; return whether any exist."""
        group = self.env_runner_group
        restored = self.restore_env_runners(group)
        if restored:
            self._make_on_env_runners_recreated_callbacks(
                config=self.config, env_runner_group=group, restored_env_runner_indices=restored
            )
        return bool(restored)

    @override(Algorithm)
    def _compile_iteration_results(
        self, *, train_results: dict[str, Any], eval_results: dict[str, Any]
    ) -> dict[str, Any]:
        results = super()._compile_iteration_results(train_results=train_results, eval_results=eval_results)
        if not eval_results:
            # RLlib repeats the last evaluation, or NaN, in every iteration without an evaluation.
            results.pop(EVALUATION_RESULTS, None)
        return results


def _unsupported(name: str, instead: str) -> Callable[..., Any]:
    """Return a method that raises NotImplementedError and names the alternative."""

    def method(self: BaseAlgorithm, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{name} belongs to RLlib's old API stack; use {instead}")

    method.__name__ = name
    method.__doc__ = f"Raise NotImplementedError: use {instead}."
    return method


OLD_STACK = {
    "compute_single_action": "act(obs)",
    "compute_actions": "act(obs), which takes several observations too",
    "get_policy": "act(obs) for actions, get_module() for the networks",
    "export_policy_model": "save_to_path(folder), then the command interreplay export",
    "export_policy_checkpoint": "save_to_path(folder), then interreplay.load_policy(folder)",
    "add_policy": "one algorithm per policy; there is one agent",
    "remove_policy": "one algorithm per policy; there is one agent",
}
"""Methods of algorithms that RLlib's new stack does not support, and their alternatives."""
for _name, _instead in OLD_STACK.items():
    setattr(BaseAlgorithm, _name, _unsupported(_name, _instead))
