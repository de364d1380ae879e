"""The runner that returns unrolls: T steps of every environment, with what the network gave when it acted."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.rllib.utils.annotations import override

from interreplay.acting.batching import CPU, as_tensors
from interreplay.errors import EnvironmentFailure
from interreplay.learning.networks.memory import State
from interreplay.learning.policies import POLICY_OUTPUT
from interreplay.learning.policy_gradient.policy_value import VALUE_OUTPUT
from interreplay.rllib.actor_learner.collectors import Answer
from interreplay.rllib.actor_learner.remembering_runner import RememberingRunner
from interreplay.rllib.env_runner.runner import BatchEnvRunner
from interreplay.rllib.env_runner.runner_state import RunnerState
from interreplay.rllib.env_runner.stepping import SteppingRunner
from interreplay.rllib.env_runner.wire_format import pack
from interreplay.unrolls.unrolls import Unrolls


class Seen(NamedTuple):
    """What came of one step of all B environments.

    Attributes:
        live: Those that stepped, ``(B,)``; the others only began another episode.
        actions: ``(B, *action_shape)``, as they are kept.
        rewards: ``(B,)``.
        terminated: ``(B,)``.
        extras: What the network gave, columns ``(B, ...)``.
    """

    live: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    extras: dict[str, np.ndarray]

    def cleared(self) -> Seen:
        """Return a step of the same shapes in which no environment was live."""
        live, actions, rewards, terminated = (np.zeros_like(column) for column in self[:4])
        extras = {name: np.zeros_like(column) for name, column in self.extras.items()}
        return Seen(live, actions, rewards, terminated, extras)


class UnrollRunner(RememberingRunner):
    """A `BatchEnvRunner` that also steps environments for unrolls; its evaluations are the same."""

    _seen: Seen | None = None
    _unrolling = False
    _weights: ray.ObjectRef | None = None
    _answered: float | None = None

    @override(SteppingRunner)
    def make_env(self) -> None:
        super().make_env()
        if self._resets_in_same_step:
            raise ValueError(
                f"autoreset_mode of the vector environment {self.env_name} is SAME_STEP; expected NEXT_STEP, unrolls "
                "hold the observation that an episode ended with in its place"
            )

    @override(BatchEnvRunner)
    def _first_state(self, restarts: int | None = None) -> RunnerState:
        """Return the state of a runner without a step; the first one elsewhere draws what the one here would."""
        index = self.worker_index or 0
        before = min(index, 1)  # RLlib adds the index to the seed
        seed = None if self._seed is None else self._seed - before
        exploration, device = self.config.exploration, self._device
        return RunnerState.begin(seed, index, self.num_envs, exploration, device, restarts, index - before)

    def unroll(self, steps: int, version: int = 0) -> Unrolls:
        """Step every environment T times, and return it as unrolls that begin where the last ones ended.

        Where an environment fails within an unroll, its steps until then are returned, the rest of it is not live, and
        the next call raises. Where environments are made anew instead, the step that failed is not live.

        Args:
            steps: T.
            version: Updates that the networks have seen.

        Raises:
            EnvironmentFailure: The environment raised an error, or gave what cannot be stored.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._recorded, self._unrolling = frozenset({POLICY_OUTPUT}), True
        self._hooks.begin_sample()
        seen: list[Seen | None] = []
        try:
            self._reset_where_due()
            rows, before = Rows(self._now.obs, steps), self.remembered()
            for t in range(steps):
                seen.append(self._seen_in_step())
                rows.put(t + 1, self._now.obs)
        except EnvironmentFailure as failure:
            if not any(seen):
                raise
            self._failure = failure
            rows.fill(len(seen))
        finally:
            self._unrolling = False
        self._hooks.end_sample()
        return self._unrolls(rows.columns(), [*seen, *[None] * (steps - len(seen))], version, before)

    def answer(
        self, weights: list[ray.ObjectRef], version: int, steps: int, restarts: int | None
    ) -> Answer | EnvironmentFailure:
        """Make what a learner in another process asks for; a failure of the environment is an answer, too.

        Args:
            weights: State of its module, alone in a list, so that it only travels where it is new.
            version: Updates that these have seen.
            steps: T.
            restarts: How often this runner's process was replaced, as far as is known; see `count_restart`.
        """
        waited = 0.0 if self._answered is None else time.monotonic() - self._answered
        if self._weights != weights[0]:
            self.set_state(ray.get(weights[0]))
            self._weights = weights[0]
        count = self.count_restart(restarts)
        try:
            made = self.make(steps, version)
        except EnvironmentFailure as failure:
            return failure
        self.take_cut_episodes()  # unrolls know no episodes that could be continued
        answer = Answer(count, pack(made.columns()), waited, self.get_metrics())
        self._answered = time.monotonic()
        return answer

    def make(self, steps: int, version: int) -> Any:
        """Return what a learner gets, something with `columns`: the unrolls themselves."""
        return self.unroll(steps, version)

    @override(BatchEnvRunner)
    def set_state(self, state: dict[str, Any]) -> None:
        self._weights = None  # RLlib may bring others
        super().set_state(state)

    def _reset_where_due(self) -> None:
        if self._needs_initial_reset:
            self._reset()

    def _seen_in_step(self) -> Seen | None:
        """Make one step of every environment; None where none was live, or environments were made anew."""
        self._seen = None
        self._step(random_actions=False, explore=True)
        self._reset_where_due()
        return self._seen

    @override(BatchEnvRunner)
    def _rows(
        self, live: np.ndarray, actions: np.ndarray, outcome: tuple[Any, ...], extras: dict[str, np.ndarray]
    ) -> Any:
        if not self._unrolling:
            return super()._rows(live, actions, outcome, extras)
        count = int(live.sum())
        self._now.steps_since_report += count
        self.num_env_steps_sampled_lifetime += count
        _, rewards, terminated, _ = outcome
        self._seen = Seen(live, actions, np.asarray(rewards), np.asarray(terminated), extras)
        return None

    def _unrolls(self, obs: Any, seen: list[Seen | None], version: int, before: State) -> Unrolls:
        known = next((one for one in seen if one is not None), None) or self._nothing()
        rows = [known.cleared() if one is None else one for one in seen]
        live = np.stack([row.live for row in rows])
        return Unrolls(
            obs=as_tensors(obs, CPU),
            actions=np.stack([row.actions for row in rows]),
            rewards=np.where(live, np.stack([row.rewards for row in rows]), 0.0).astype(np.float32),
            terminated=np.stack([row.terminated for row in rows]).astype(bool) & live,
            live=live,
            policy=np.stack([row.extras[POLICY_OUTPUT] for row in rows]),
            values=np.stack([row.extras[VALUE_OUTPUT] for row in rows]),
            state=before,
            version=version,
        )

    def _nothing(self) -> Seen:
        """Return a step of the right shapes, for unrolls in which no environment was live."""
        actions, extras = self._act(random_actions=True, explore=True)
        flags = np.zeros(self.num_envs, dtype=bool)
        return Seen(flags, actions, np.zeros(self.num_envs), flags, extras)


class Rows:
    """Observations of T + 1 moments, in arrays of their own ``(T + 1, B, ...)``.

    Args:
        first: Those of the first moment, an array ``(B, ...)`` or a dict of such.
        steps: T.
    """

    def __init__(self, first: Any, steps: int):
        self._named = isinstance(first, dict)
        parts = first if self._named else {"": first}
        self._arrays = {name: np.empty((steps + 1, *part.shape), part.dtype) for name, part in parts.items()}
        self.put(0, first)

    def put(self, t: int, obs: Any) -> None:
        """Note the observations of a moment."""
        for name, array in self._arrays.items():
            array[t] = obs[name] if self._named else obs

    def fill(self, t: int) -> None:
        """Let all moments after `t` be as that one."""
        for array in self._arrays.values():
            array[t + 1 :] = array[t]

    def columns(self) -> Any:
        """Return the arrays, by name where observations have parts."""
        return self._arrays if self._named else self._arrays[""]
