"""The runner that returns unrolls: T steps of every environment, with the outputs of the network that acted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.utils.annotations import override
from torch import Tensor

from interreplay.errors import EnvironmentFailure
from interreplay.learning.networks.memory import State
from interreplay.learning.policies import POLICY_OUTPUT
from interreplay.learning.policy_gradient.policy_value import VALUE_OUTPUT
from interreplay.rllib.env_runner.remote import Answer, pack
from interreplay.rllib.env_runner.runner import BatchEnvRunner
from interreplay.rllib.env_runner.runner_state import RunnerState
from interreplay.transitions import Transitions, map_observation, to_arrays
from interreplay.unrolls.unrolls import Unrolls


class UnrollRunner(BatchEnvRunner):
    """A `BatchEnvRunner` that also returns unrolls, for policies with or without a `Memory`.

    Every episode begins with an empty memory, which is part of the runner's state.
    """

    _unroll_columns: StepColumns | None = None
    _weights: ray.ObjectRef | None = None
    _answered: float | None = None
    _memory: State | None = None

    @override(BatchEnvRunner)
    def _first_state(self, env_steps: int = 0, offset: int = 0) -> RunnerState:
        # The first remote runner has the random stream of a local one.
        return super()._first_state(env_steps, offset=min(self.worker_index or 0, 1))

    def memory_state(self) -> State:
        """Return the state of the policy's memory, ``(n, cells)`` by name; empty if it has none."""
        memory = self.module.policy.memory
        if memory is None:
            return {}
        if self._memory is None or len(self._memory["h"]) != self.num_envs:
            self._memory = memory.begin(self.num_envs)
        return self._memory

    @override(BatchEnvRunner)
    def _encode(self) -> Tensor:
        rows = super()._encode()
        state = self.memory_state()
        if state:
            rows, self._memory = self.module.policy.memory.step(rows, state)
        return rows

    @override(BatchEnvRunner)
    def _start(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        if self._memory is not None:
            continued = torch.from_numpy(~which).to(self._device).unsqueeze(-1)
            self._memory = {name: part * continued for name, part in self._memory.items()}
        super()._start(which, obs, infos)

    @override(BatchEnvRunner)
    def state_dict(self) -> dict[str, Any]:
        memory = to_arrays(self._memory or {})
        return super().state_dict() | {"memory": memory}

    @override(BatchEnvRunner)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._memory = None
        if state["memory"] and len(state["memory"]["h"]) == self.num_envs:
            self._memory = {}
            for name, part in state["memory"].items():
                self._memory[name] = torch.as_tensor(np.array(part)).to(self._device)

    def make(self, steps: int, version: int) -> Any:
        """Return unrolls for the learner; subclasses may return other objects with `columns`."""
        return self.unroll(steps, version)

    def unroll(self, steps: int, version: int = 0) -> Unrolls:
        """Step every environment T times, and return unrolls that begin where the last ones ended.

        If an environment fails within an unroll, its steps until then are returned, the rest of it is not live, and the
        next call raises. `version` is the number of updates of the networks.

        Raises:
            EnvironmentFailure: The environment raised an error, or returned values that cannot be stored.
        """
        self._raise_postponed_failure()
        self._recorded = frozenset({POLICY_OUTPUT})
        made = StepColumns(steps)
        self._unroll_columns = made
        with self._whole_fragment():
            try:
                if self._needs_initial_reset:
                    self._reset()
                observations = [self._state.obs]
                state = self.memory_state()
                for t in range(steps):
                    self._step(random_actions=False, explore=True)
                    made.t = t + 1
                    observations.append(self._state.obs)
            except EnvironmentFailure as failure:
                if not made.arrays:
                    raise
                self._failure = failure
                observations += observations[-1:] * (steps + 1 - len(observations))
            finally:
                self._unroll_columns = None
        if not made.arrays:  # no environment was live: actions and outputs are only needed for their shapes
            actions, extras = self._act(random_actions=True, explore=True)
            flags = np.zeros(self.num_envs, dtype=bool)
            made.t = 0
            made.put(extras, live=flags, actions=actions, rewards=np.zeros(self.num_envs), terminated=flags)
        live = made.arrays["live"]
        return Unrolls(
            obs=map_observation(lambda *steps: torch.from_numpy(np.stack(steps)), *observations),
            actions=made.arrays["actions"],
            rewards=np.where(live, made.arrays["rewards"], 0.0).astype(np.float32),
            terminated=made.arrays["terminated"] & live,
            live=live,
            policy=made.arrays[POLICY_OUTPUT],
            values=made.arrays[VALUE_OUTPUT],
            state=state,
            version=version,
        )

    @override(BatchEnvRunner)
    def _rows(
        self, live: np.ndarray, actions: np.ndarray, outcome: tuple[Any, ...], extras: dict[str, np.ndarray]
    ) -> Transitions | None:
        """Record the step of an unroll; return transitions for evaluations."""
        if self._unroll_columns is None:
            return super()._rows(live, actions, outcome, extras)
        _, rewards, terminated, _ = outcome
        self._unroll_columns.put(
            extras,
            live=live,
            actions=actions,
            rewards=np.asarray(rewards, dtype=np.float32),  # vector environments may return integers in some steps
            terminated=np.asarray(terminated, dtype=bool),
        )
        return None

    def answer(
        self, make: Callable[[Any, int], Any], weights: list[ray.ObjectRef], version: int
    ) -> Answer | EnvironmentFailure:
        """Answer a request of a learner in another process; return a failure of the environment as well.

        Args:
            make: Called with this runner and the version; returns an object with `columns`.
            weights: Reference to the state of the module, in a list so that it is only transferred if it is new.
            version: Number of updates that produced the weights.
        """
        waited = 0.0 if self._answered is None else time.monotonic() - self._answered
        if self._weights != weights[0]:
            self.set_state(ray.get(weights[0]))
            self._weights = weights[0]
        try:
            made = make(self, version)
        except EnvironmentFailure as failure:
            return failure
        self.take_cut_episodes()  # unrolls do not refer to episodes
        answer = Answer(pack(made.columns()), waited, self.get_metrics())
        self._answered = time.monotonic()
        return answer

    @override(BatchEnvRunner)
    def set_state(self, state: dict[str, Any]) -> None:
        self._weights = None  # RLlib may send other weights
        super().set_state(state)


class StepColumns:
    """Arrays of the T steps of an unroll, ``(T, B, ...)`` by name, in the dtypes of the first step.

    They are zero for environments that were not live.

    Attributes:
        t: Number of the current step.
        arrays: The arrays, empty before the first step.
    """

    def __init__(self, steps: int):
        self._steps = steps
        self.t = 0
        self.arrays: dict[str, np.ndarray] = {}

    def put(self, extras: dict[str, np.ndarray], **columns: Any) -> None:
        """Store the columns ``(B, ...)`` of the current step."""
        for name, column in (columns | extras).items():
            values = np.asarray(column)
            if name not in self.arrays:
                self.arrays[name] = np.zeros((self._steps, *values.shape), values.dtype)
            self.arrays[name][self.t] = values
