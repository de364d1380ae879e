"""Imagination: when a learned model is fitted, and the start states and lengths of its rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.buffer import ReplayBuffer
from interreplay.environments.goal_functions import GoalFn
from interreplay.environments.registration import WRAPPED, inner_env_name
from interreplay.environments.terminations import TerminationFn, termination_function
from interreplay.errors import check_number
from interreplay.experience.learned_models.dynamics import Dynamics
from interreplay.experience.learned_models.rollouts import Simulation, StateColumns, goal_values
from interreplay.learning.update import flat_rows
from interreplay.part import Context, standard_normal
from interreplay.storage.columns import Columns
from interreplay.transitions import Observation, Transitions, cat, observation_parts, pick

Schedule = tuple[float, float, float, float]
"""Initial length, final length, and the two env steps between which the length grows."""
PUBLISHED: dict[str, Schedule] = {
    "Hopper": (1, 15, 20_000, 150_000),
    "Ant": (1, 25, 20_000, 100_000),
    "Humanoid": (1, 25, 20_000, 300_000),
}
"""Rollout lengths of MBPO's experiments by environment, without version. Other environments use one step."""


def as_schedule(given: Any) -> Schedule | None:
    """Return a schedule of rollout lengths, constant for a single number."""
    if given is None:
        return None
    numbers: list[Any] = []
    if isinstance(given, int | float):
        numbers = [given, given, 0, 0]
    elif not isinstance(given, str):
        numbers = list(given)
    valid = len(numbers) == 4 and all(isinstance(number, int | float) and isfinite(number) for number in numbers)
    if not valid or min(numbers[:2]) < 1 or not 0 <= numbers[2] <= numbers[3]:
        raise ValueError(
            f"rollout_length is {given!r}; expected a number of steps, or (start, end, from, to) with lengths of at "
            "least 1 and env steps in order"
        )
    return numbers[0], numbers[1], numbers[2], numbers[3]


def rollout_length(schedule: Schedule, env_steps: int) -> int:
    """Return the rollout length after a number of env steps of the run.

    With the schedule (start, end, from, to), it is `start` up to env step `from`, grows linearly, and is `end` after
    env step `to`; fractions are rounded down.
    """
    start, end, begin, until = schedule
    if until == begin:
        return int(end if env_steps >= until else start)
    progress = min(max((env_steps - begin) / (until - begin), 0.0), 1.0)
    return int(start + (end - start) * progress + 1e-9)


ROWS_AT_ONCE = 16_384
"""Rows per forward pass of the policy."""


class Imagination:
    """Fits a model to stored rows and generates rollouts in it.

    Args:
        dynamics: The model.
        fit_every: Env steps between fits.
        fit_rows: Maximum number of rows of a fit; None for all.
        per_step: Number of rollouts per env step.
        schedule: Rollout length; None for the environment's published schedule.
        keep_fits: Number of fits for which generated rows are kept.
        action_noise: Standard deviation of noise added to the actions of deterministic policies.
        sampled: Whether rollouts start from rows drawn by the real buffer instead of uniformly drawn stored rows.
        termination_fn: Termination function; None for the function of the environment in `connect`.

    Attributes:
        env_steps: Rows added in the whole run.
        columns: The predicted columns, None before the rows are known. Rewards of goals are computed, not predicted.
        context: The argument of `connect`.
        found: Metrics of the last rollouts, by name.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *,
        fit_every: int,
        fit_rows: int | None,
        per_step: float,
        schedule: Schedule | None,
        keep_fits: int,
        action_noise: float,
        sampled: bool,
        termination_fn: TerminationFn | None,
    ):
        check_number("fit_every", fit_every, 1, whole=True)
        if fit_rows is not None:
            check_number("fit_rows", fit_rows, 2, whole=True)
        check_number("keep_fits", keep_fits, 1, whole=True)
        check_number("rollouts", per_step, 0, above_low=True)
        check_number("action_noise", action_noise, 0)
        self._rollouts_per_fit = int(per_step * fit_every)
        if self._rollouts_per_fit < 1:
            raise ValueError(f"rollouts is {per_step!r}; expected a number per env step, at least one per fit")
        self._fit_every = fit_every
        self._fit_rows = fit_rows
        self._keep_fits = keep_fits
        self._has_schedule = schedule is not None
        self._schedule = schedule or (1, 1, 0, 0)
        self._action_noise = action_noise
        self._sampled = sampled
        self._given = termination_fn
        self._terminated = termination_fn
        self.dynamics = dynamics
        self.env_steps = 0
        self._fitted_at = -1
        self._episodes = 0
        self.context: Context | None = None
        self.found: dict[str, float] = {}
        self.columns: StateColumns | None = None
        self._action_shape: tuple[int, ...] = ()

    # -- rows and environment -------------------------------------------------------------------------

    def use_columns(self, columns: Columns) -> None:
        """Set the columns of the rows."""
        self._action_shape = columns["actions"][0]
        given = StateColumns.from_columns(columns)
        if self.columns is None or self.columns.parts != given.parts:
            self.columns = given

    def connect(self, context: Context) -> None:
        """Set the policy, the environment's goal functions and its termination function.

        Raises:
            ValueError: The environment has no known termination function, or wrappers that may change observations.
        """
        self.context = context
        environment = context.environment or "unnamed"
        self.use_environment(environment, context.environment_arguments or {}, context.compute_terminated)

    def use_environment(
        self, environment: str, arguments: Mapping[str, Any], compute_terminated: GoalFn | None = None
    ) -> None:
        """Set the termination function, which may be one of goals, and the rollout lengths of an environment.

        Raises:
            ValueError: As `connect`.
        """
        name = inner_env_name(environment, arguments)
        if not self._has_schedule:
            self._schedule = PUBLISHED.get(name.rpartition(":")[2].rsplit("-v", 1)[0], (1, 1, 0, 0))
        if self._given is not None:
            return
        if compute_terminated is None and environment == WRAPPED:
            raise ValueError(
                f"{name} has wrappers or stacked observations; expected a termination_fn for these observations: a "
                "function (s, a, s') -> (n,) bool, or the id of an environment with equal observations"
            )
        try:
            self._terminated = termination_function(environment, arguments)
        except ValueError as error:
            if compute_terminated is None:
                raise ValueError(f"{error}, as termination_fn") from None
            self._terminated = partial(goal_values, compute_terminated, torch.bool)

    # -- schedule -------------------------------------------------------------------------------------

    def due(self, stored: int, capacity: int) -> bool:
        """Return whether a fit is due; the first is due after `fit_every` rows or when the buffer is full."""
        if self._fitted_at < 0:
            return stored >= max(2, min(self._fit_every, capacity))
        return self.env_steps - self._fitted_at >= self._fit_every

    @property
    def length(self) -> int:
        """Current rollout length."""
        return rollout_length(self._schedule, self.env_steps)

    def count_rows(self, length: int) -> int:
        """Return the number of kept rows of rollouts of `length` steps."""
        return self._keep_fits * self._rollouts_per_fit * length

    @property
    def most_rows(self) -> int:
        """Maximum number of kept rows."""
        return self.count_rows(int(max(self._schedule[:2])))

    # -- fits and rollouts ----------------------------------------------------------------------------

    def fit(self, real: ReplayBuffer, rng: np.random.Generator) -> None:
        """Fit the model to stored rows."""
        rows = real.storage[self._choose_fit_rows(real, rng)]
        if self.columns is None:
            self.use_columns(real.storage.columns)
        assert self.columns is not None
        self.columns = self.columns.find_copies(rows.obs, rows.next_obs)
        states = self.columns.flatten(rows.obs)
        next_states = self.columns.flatten(rows.next_obs)
        rewards = None
        if not self.columns.goals:
            rewards = rows.rewards.float()
        self.dynamics.fit(states, flat_rows(rows.actions).float(), next_states, rewards, rng)
        self._fitted_at = self.env_steps

    def _choose_fit_rows(self, real: ReplayBuffer, rng: np.random.Generator) -> Tensor:
        """Return the slots of all stored rows, or of `fit_rows` rows drawn without replacement."""
        stored = len(real)
        most = self._fit_rows
        if most is None or stored <= most:
            return torch.arange(stored)
        return torch.from_numpy(rng.choice(stored, most, replace=False))

    def rollouts(self, real: ReplayBuffer, rng: np.random.Generator) -> Iterator[Transitions]:
        """Yield the rows of rollouts of the current policy, step by step."""
        simulation = self._simulation()
        count = self._rollouts_per_fit
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
        if not self._sampled:
            slots = torch.from_numpy(rng.integers(0, len(real), count))
            return real.storage[slots].obs
        drawn = []
        for start in range(0, count, ROWS_AT_ONCE):
            drawn.append(real.sample(min(ROWS_AT_ONCE, count - start)).transitions.replace(extras={}))
        return cat(drawn).to("cpu").obs

    def _simulation(self) -> Simulation:
        if self.context is None or self.context.policy is None:
            raise ValueError("the model has no policy for its rollouts; call connect(Context(policy=...)) first")
        assert self.columns is not None and self._terminated is not None
        reward = None
        if self.columns.goals:
            if self.context.compute_reward is None:
                raise ValueError("the rewards of goals are unknown; call connect(Context(compute_reward=...)) first")
            reward = partial(goal_values, self.context.compute_reward, torch.float32)
        return Simulation(self.dynamics, self.columns, self.act, terminated=self._terminated, reward=reward)

    @torch.no_grad()
    def act(self, obs: Observation, rng: np.random.Generator) -> Tensor:
        """Return the policy's actions for observations ``(n, ...)``, with noise if it is deterministic."""
        assert self.context is not None and self.context.policy is not None
        count = len(next(iter(observation_parts(obs).values())))
        policy = self.context.on_rows(self.context.policy)
        outputs = []
        for start in range(0, count, ROWS_AT_ONCE):
            outputs.append(policy(pick(obs, slice(start, start + ROWS_AT_ONCE))))
        given = torch.cat(outputs)
        if self.context.policy_is_gaussian:
            mean, log_std = given.chunk(2, dim=-1)
            actions = torch.tanh(mean + log_std.exp() * standard_normal(mean.shape, rng))
        else:
            if self._action_noise:
                given = given + self._action_noise * standard_normal(given.shape, rng)
            actions = given.clamp(-1.0, 1.0)
        return actions.reshape(count, *self._action_shape)

    # -- state ----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        state = {"env_steps": self.env_steps, "fitted_at": self._fitted_at, "episodes": self._episodes}
        parts: dict[str, Any] = {}
        copies: list[int] = []
        if self.columns is not None:
            parts = {name: list(shape) for name, shape in self.columns.parts.items()}
            copies = list(self.columns.copies)
        return state | {"found": dict(self.found), "parts": parts, "copies": copies, "shape": list(self._action_shape)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_steps = int(state["env_steps"])
        self._fitted_at = int(state["fitted_at"])
        self._episodes = int(state["episodes"])
        self.found = dict(state["found"])
        self.columns = None
        if state["parts"]:
            self.columns = StateColumns(state["parts"], state["copies"])
        self._action_shape = tuple(map(int, state["shape"]))
