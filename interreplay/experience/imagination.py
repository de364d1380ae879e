"""Schedule of the fits of a learned model, and start states and length of its rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.buffer import ReplayBuffer
from interreplay.environments.terminations import TerminationFn, termination_function
from interreplay.experience.learned_models.dynamics import Dynamics
from interreplay.experience.learned_models.rollouts import GoalFunction, Simulation
from interreplay.experience.learned_models.schedules import PUBLISHED, Limits, rollout_length
from interreplay.experience.learned_models.states import StateColumns
from interreplay.part import Context, standard_normal
from interreplay.storage.columns import Columns
from interreplay.transitions import Observation, Transitions, cat, map_observation, observation_parts

ROWS_AT_ONCE = 16_384
"""Rows per forward pass of the policy."""


class Imagination:
    """Fits a model to stored rows and generates rollouts in it.

    Args:
        dynamics: The model.
        limits: Frequency of fits and size of rollouts.
        action_noise: Standard deviation of noise added to the actions of deterministic policies.
        sampled: Whether rollouts start from rows drawn by the real buffer; else from uniformly drawn stored rows.
        termination_fn: Termination function; None for the function of the environment in `connect`.

    Attributes:
        env_steps: Rows added in the whole run.
        context: The argument of `connect`.
        found: Metrics of the last rollouts, by name.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        limits: Limits,
        action_noise: float,
        sampled: bool,
        termination_fn: TerminationFn | None,
    ):
        check_number("action_noise", action_noise, 0)
        self.dynamics = dynamics
        self.limits = limits
        self.action_noise = action_noise
        self.sampled = sampled
        self.env_steps = 0
        self._fitted_at = -1
        self._episodes = 0
        self.context: Context | None = None
        self.found: dict[str, float] = {}
        self._given = termination_fn
        self._terminated = termination_fn
        self._schedule = limits.schedule or (1, 1, 0, 0)
        self._columns: StateColumns | None = None
        self._action_shape: tuple[int, ...] = ()

    # -- rows and environment -------------------------------------------------------------------------

    @property
    def has_goals(self) -> bool:
        """Whether rows have goals, for which rewards are computed instead of predicted."""
        return self._columns is not None and self._columns.goals

    def use_columns(self, columns: Columns) -> None:
        """Set the columns of the rows."""
        self._action_shape = columns["actions"][0]
        if self._columns is None or {*self._columns.parts.items()} != {*StateColumns.of(columns).parts.items()}:
            self._columns = StateColumns.of(columns)

    def connect(self, context: Context) -> None:
        """Set the policy, the environment's goal functions and its termination function.

        Raises:
            ValueError: The environment has no known termination function.
        """
        self.context = context
        name = context.environment
        if self.limits.schedule is None and name is not None:
            self._schedule = PUBLISHED.get(name.rpartition(":")[2].rsplit("-v", 1)[0], (1, 1, 0, 0))
        if self._given is not None:
            return
        try:
            self._terminated = termination_function(name or "unnamed", context.environment_arguments)
        except ValueError as error:
            if context.compute_terminated is None:
                raise ValueError(f"{error}, as termination_fn") from None
            self._terminated = GoalFunction(context.compute_terminated, torch.bool)

    # -- schedule -------------------------------------------------------------------------------------

    def due(self, stored: int, capacity: int) -> bool:
        """Return whether a fit is due; the first is due after `fit_every` rows or when the buffer is full."""
        if self._fitted_at < 0:
            return stored >= max(2, min(self.limits.fit_every, capacity))
        return self.env_steps - self._fitted_at >= self.limits.fit_every

    @property
    def length(self) -> int:
        """Current rollout length."""
        return rollout_length(self._schedule, self.env_steps)

    @property
    def rows(self) -> int:
        """Current number of kept rows."""
        return self.limits.rows_of(self.length)

    @property
    def most_rows(self) -> int:
        """Maximum number of kept rows."""
        return self.limits.rows_of(int(max(self._schedule[:2])))

    # -- fits and rollouts ----------------------------------------------------------------------------

    def fit(self, real: ReplayBuffer, rng: np.random.Generator) -> None:
        """Fit the model to stored rows."""
        rows = real.storage[self._stored(real, rng)]
        if self._columns is None:
            self.use_columns(real.storage.columns)
        assert self._columns is not None
        self._columns = self._columns.find_copies(rows.obs, rows.next_obs)
        states, following = self._columns.flatten(rows.obs), self._columns.flatten(rows.next_obs)
        rewards = None if self._columns.goals else rows.rewards.float()
        self.dynamics.fit(states, rows.actions.flatten(1).float(), following, rewards, rng)
        self._fitted_at = self.env_steps

    def _stored(self, real: ReplayBuffer, rng: np.random.Generator) -> Tensor:
        """Return the slots of all stored rows, or of `fit_rows` rows drawn without replacement."""
        stored, most = len(real), self.limits.fit_rows
        slots = np.arange(stored) if most is None or stored <= most else rng.choice(stored, most, replace=False)
        return torch.from_numpy(slots)

    def rollouts(self, real: ReplayBuffer, rng: np.random.Generator) -> Iterator[Transitions]:
        """Yield the rows of rollouts of the current policy, step by step."""
        simulation = self._simulation()
        count = self.limits.rollouts
        length = self.length
        episodes = torch.arange(self._episodes, self._episodes + count)
        self._episodes += count
        self.found = {"rollout_length": float(length), "rollout_rows": 0.0, "rollouts_terminated": 0.0}
        for number, rows in enumerate(simulation.rollouts(self._starts(real, count, rng), length, rng, episodes), 1):
            self.found["rollout_rows"] += len(rows)
            self.found["rollouts_terminated"] += float(rows.terminated.sum()) / count
            if self.context is not None and self.context.simulate is not None:
                self.found |= {f"{name}_at_{number}": value for name, value in self.context.simulate(rows).items()}
            yield rows

    def _starts(self, real: ReplayBuffer, count: int, rng: np.random.Generator) -> Observation:
        if not self.sampled:
            slots = torch.from_numpy(rng.integers(0, len(real), count))
            return real.storage[slots].obs
        sizes = [min(ROWS_AT_ONCE, count - start) for start in range(0, count, ROWS_AT_ONCE)]
        return cat([real.sample(size).transitions.replace(extras={}) for size in sizes]).to("cpu").obs

    def _simulation(self) -> Simulation:
        if self.context is None or self.context.policy is None:
            raise ValueError("a model has no policy for its rollouts; expected connect(Context(policy=...)) before")
        assert self._columns is not None and self._terminated is not None
        reward: GoalFunction | None = None
        if self._columns.goals:
            if self.context.compute_reward is None:
                raise ValueError("there is no compute_reward; expected the environment's, by connect(Context(...))")
            reward = GoalFunction(self.context.compute_reward, torch.float32)
        return Simulation(self.dynamics, self._columns, self.act, self._terminated, reward)

    @torch.no_grad()
    def act(self, obs: Observation, rng: np.random.Generator) -> Tensor:
        """Return the policy's actions for observations ``(n, ...)``, with noise if it is deterministic."""
        assert self.context is not None and self.context.policy is not None
        count = len(next(iter(observation_parts(obs).values())))
        pieces = [slice(start, start + ROWS_AT_ONCE) for start in range(0, count, ROWS_AT_ONCE)]
        policy = self.context.on_rows(self.context.policy)
        given = torch.cat([policy(map_observation(lambda p, s=s: p[s], obs)) for s in pieces])
        if self.context.policy_is_gaussian:
            mean, log_std = given.chunk(2, dim=-1)
            actions = torch.tanh(mean + log_std.exp() * standard_normal(mean.shape, rng))
        else:
            noise = standard_normal(given.shape, rng) if self.action_noise else 0.0
            actions = (given + self.action_noise * noise).clamp(-1.0, 1.0)
        return actions.reshape(count, *self._action_shape)

    # -- state ----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        state = {"env_steps": self.env_steps, "fitted_at": self._fitted_at, "episodes": self._episodes}
        parts = {} if self._columns is None else {k: list(v) for k, v in self._columns.parts.items()}
        copies = [] if self._columns is None else list(self._columns.copies)
        return state | {"found": dict(self.found), "parts": parts, "copies": copies, "shape": list(self._action_shape)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state."""
        self.env_steps = int(state["env_steps"])
        self._fitted_at = int(state["fitted_at"])
        self._episodes = int(state["episodes"])
        self.found = dict(state["found"])
        self._columns = StateColumns(state["parts"], state["copies"]) if state["parts"] else None
        self._action_shape = tuple(int(n) for n in state["shape"])
