"""Where an algorithm's rows come from: the runner in its process, or those in others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ray.rllib.core import COMPONENT_RL_MODULE

from interreplay.errors import EnvironmentFailure, RunnerLost
from interreplay.rllib.env_runner.episode_log import Names
from interreplay.rllib.env_runner.remote import Collected, RemoteRunners
from interreplay.rllib.env_runner.wire_format import unpack_rows


class RunnersOfLoop(Protocol):
    """What a loop asks of runners, wherever they are and whatever they collect."""

    def metrics(self) -> list[Any]:
        """Return what the runners report."""

    def wait(self, restore: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        """Wait until there is a runner, where `collect` gave nothing.

        Args:
            restore: Takes restarted runners into service and returns whether there are some.
            stopped: Whether to wait no longer.

        Raises:
            RunnerLost: When there will be none.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the runners in other processes."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""


class Collector(RunnersOfLoop, Protocol):
    """Steps environments and returns their columns."""

    def collect(self, length: int, warm_up: bool, record: Names, progress: float | None = None) -> Collected:
        """Step every environment `length` times.

        Args:
            length: Steps of each environment.
            warm_up: Act at random.
            record: Names of columns to add, see `BatchEnvRunner.collect`.
            progress: Of the run, for exploration with a schedule; None leaves it where it is.
        """


class Here:
    """The runner in this process, whose state is part of RLlib's.

    Args:
        runner: A `BatchEnvRunner`.
    """

    def __init__(self, runner: Any):
        self._runner = runner

    def metrics(self) -> list[Any]:
        return [self._runner.get_metrics()]

    def wait(self, restore: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"remote_runners": {}, "runner_restarts": {}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Elsewhere:
    """The runners in other processes.

    Args:
        runners: These.
        learner: Whose newest weights they act with.
        patience: Seconds that all of them may be away.
    """

    def __init__(self, runners: RemoteRunners, learner: Any, patience: float):
        self._runners, self._learner, self._patience = runners, learner, patience

    def _weights(self) -> dict[str, Any]:
        return self._learner.get_state(components=COMPONENT_RL_MODULE, inference_only=True)

    def metrics(self) -> list[Any]:
        return self._runners.metrics()

    def wait(self, restore: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._patience
        while not stopped() and not restore():
            if self._runners.dead_for_good():
                raise RunnerLost("all remote env runners died, and max_num_env_runner_restarts allows no more restarts")
            if time.monotonic() > deadline:
                raise RunnerLost(
                    f"no remote env runner was restarted within env_runner_restore_timeout_s={self._patience} s"
                )
            time.sleep(0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"remote_runners": self._runners.states(), "runner_restarts": dict(self._runners.restarts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._runners.load_states(state["remote_runners"], state.get("runner_restarts"))


class LocalCollector(Here):
    """Rows of the runner in this process."""

    def collect(self, length: int, warm_up: bool, record: Names, progress: float | None = None) -> Collected:
        try:
            rows = self._runner.collect(length * self._runner.num_envs, warm_up, record, progress)
        except EnvironmentFailure as failure:
            return Collected(failure=failure)
        return Collected([rows], self._runner.take_cut_episodes())


class RemoteCollector(Elsewhere):
    """Rows of the runners in other processes."""

    def collect(self, length: int, warm_up: bool, record: Names, progress: float | None = None) -> Collected:
        def make(runner: Any) -> Any:
            return runner.collect(length * runner.num_envs, warm_up, record, progress)

        return self._runners.collect(self._weights(), make, unpack_rows)


def make_collector(config: Any, group: Any, learner: Any) -> Collector:
    """Return the collector of a configuration.

    Args:
        config: Of the algorithm.
        group: RLlib's group of env runners.
        learner: Of the algorithm.
    """
    if config.num_env_runners == 0:
        return LocalCollector(group.local_env_runner)
    return RemoteCollector(RemoteRunners(group, config), learner, config.env_runner_restore_timeout_s)
