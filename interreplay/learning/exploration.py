"""Exploration: the choice of actions from the outputs of a policy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.environments.own_modules import import_user_class, is_users_class, make_object
from interreplay.errors import PartError, check_number
from interreplay.learning.policies import ContinuousPolicy, DiscretePolicy, Policy


class Exploration(ABC):
    """A rule that selects actions from the outputs of one network call of a policy.

    Attributes:
        annealed: Whether it has a schedule, which `anneal` advances.
        steps: Env steps over which the progress grows from 0 to 1; None for the steps of the run's schedules.
    """

    annealed = False
    steps: int | None = None

    @abstractmethod
    def choose(self, policy: Policy, output: Tensor, rng: torch.Generator) -> Tensor:
        """Choose actions ``(n, size)``, which are clipped to [−1, 1], or indices ``(n,)`` of discrete actions.

        Args:
            policy: The policy; `size` is the width of an action or the number of discrete actions.
            output: Result ``(n, ...)`` of `Policy.output`.
            rng: Source of randomness, on the device of the policy.
        """

    def output(self, policy: Policy, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return the outputs of the policy for encoded observations ``(n, inputs)``."""
        return policy.output(obs)

    def act(self, policy: Policy, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return actions ``(n, *action_shape)`` for encoded observations ``(n, inputs)``."""
        return self.act_and_record(policy, obs, rng, record=False)[0]

    def act_and_record(
        self, policy: Policy, obs: Tensor, rng: torch.Generator, record: bool = True
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return actions and, if `record`, the columns of `Policy.record` for outputs without noise."""
        output = self.output(policy, obs, rng)
        recorded = {}
        if record and policy.noisy:
            recorded = policy.record(policy.output(obs))
        elif record:
            recorded = policy.record(output)
        actions = self.choose(policy, output, rng)
        if is_users_class(type(self)):
            actions = check_actions(self, policy, actions, len(obs))
        return actions, recorded

    def check(self, policy: Policy) -> None:  # noqa: B027 - many support every policy
        """Raise a ValueError if the policy is not supported."""

    def start(self, which: np.ndarray) -> None:  # noqa: B027 - many have no state
        """Reset state for environments `which` ``(environments,)``, boolean, where episodes start."""

    def anneal(self, progress: float) -> None:  # noqa: B027 - many have no schedule
        """Set the schedule to the `progress` of the run, from 0 to 1."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without the policy and the random generator."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - many have no state
        """Restore a state."""


def check_actions(exploration: Exploration, policy: Policy, actions: Any, count: int) -> Any:
    """Return the actions of a user's exploration for `count` observations in main memory, clipped if continuous.

    Environments need them there, and checks on a GPU would wait for it a second time.

    Raises:
        PartError: The actions have another type, shape or dtype, contain NaN, or are indices that do not exist.
    """
    if isinstance(policy, DiscretePolicy):
        shape: tuple[int, ...] = (count,)
        low = 0.0
        high = policy.size - 1.0
        expected = f"a tensor of integers from 0 to {policy.size - 1} of shape {shape}"
    elif isinstance(policy, ContinuousPolicy):
        shape = (count, policy.size)
        low = -math.inf
        high = math.inf
        expected = f"a tensor of floats from -1 to 1 of shape {shape}"
    else:
        return actions
    returned = ""
    if not isinstance(actions, Tensor):
        returned = f"a {type(actions).__name__}"
    elif actions.shape != shape or actions.is_floating_point() == policy.discrete:
        returned = f"actions of shape {tuple(actions.shape)} of {actions.dtype}"
    else:
        actions = actions.cpu()
        inside = (actions >= low) & (actions <= high)
        if not bool(inside.all()):
            returned = f"the action {actions[~inside][0].item()}"
    if returned:
        raise PartError(f"exploration {type(exploration).__name__} returned {returned}; expected {expected}")
    return actions if policy.discrete else actions.clamp(-1.0, 1.0)


class Greedy(Exploration):
    """Greedy actions, without exploration."""

    def choose(self, policy: Policy, output: Tensor, rng: torch.Generator) -> Tensor:
        return policy.mode(output)


class Sampled(Exploration):
    """Samples from the policy's distribution, as in SAC."""

    def choose(self, policy: Policy, output: Tensor, rng: torch.Generator) -> Tensor:
        return policy.draw(output, rng)

    def check(self, policy: Policy) -> None:
        if not policy.stochastic:
            raise ValueError("exploration is Sampled and the policy is deterministic; expected another exploration")


class Random(Exploration):
    """Uniformly random actions."""

    def choose(self, policy: Policy, output: Tensor, rng: torch.Generator) -> Tensor:
        return policy.random(len(output), rng)

    def act_and_record(
        self, policy: Policy, obs: Tensor, rng: torch.Generator, record: bool = True
    ) -> tuple[Tensor, dict[str, Tensor]]:
        recorded = {}
        if record:
            recorded = policy.record_random(len(obs))
        return policy.random(len(obs), rng), recorded


class Noisy(Greedy):
    """Greedy actions of a network with noisy layers, with new noise in each step (arXiv:1706.10295)."""

    def output(self, policy: Policy, obs: Tensor, rng: torch.Generator) -> Tensor:
        return policy.noisy_output(obs, rng)

    def check(self, policy: Policy) -> None:
        if not policy.noisy:
            raise ValueError("exploration is Noisy and the policy has no noisy layers; expected another exploration")


class EpsilonGreedy(Exploration):
    """Uniformly random actions with probability ε, else greedy actions (Mnih et al. 2015).

    ε changes linearly from `start` to `end`. A noisy network draws new noise in each step.

    Args:
        start: Initial ε.
        end: Final ε.
        share: Share of the run over which ε changes.
        steps: Env steps over which ε changes; None for `share`.
    """

    def __init__(self, start: float = 1.0, end: float = 0.05, share: float = 0.1, steps: int | None = None):
        for name, value in (("start", start), ("end", end), ("share", share)):
            check_number(name, value, 0, 1)
        if steps is not None:
            check_number("steps", steps, 1, whole=True)
        self.start_epsilon = float(start)
        self.end_epsilon = float(end)
        self.steps = steps
        self.share = float(share)
        if steps is not None:
            self.share = 1.0
        self.annealed = self.start_epsilon != self.end_epsilon
        self.progress = 0.0

    @property
    def epsilon(self) -> float:
        """Current probability ε of a random action."""
        if self.progress >= self.share:
            return self.end_epsilon
        done = self.progress / self.share
        return (1.0 - done) * self.start_epsilon + done * self.end_epsilon

    def output(self, policy: Policy, obs: Tensor, rng: torch.Generator) -> Tensor:
        if policy.noisy:
            return policy.noisy_output(obs, rng)
        return policy.output(obs)

    def choose(self, policy: Policy, output: Tensor, rng: torch.Generator) -> Tensor:
        best = policy.mode(output)
        random = policy.random(len(output), rng)
        explores = torch.rand(len(output), generator=rng, device=rng.device) < self.epsilon
        return torch.where(explores.view(-1, *[1] * (best.ndim - 1)), random, best)

    def anneal(self, progress: float) -> None:
        self.progress = float(progress)

    def state_dict(self) -> dict[str, Any]:
        return {"progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = float(state["progress"])


class Additive(Exploration):
    """Greedy actions with added noise, clipped to [−1, 1].

    Attributes:
        sigma: Standard deviation of the noise drawn in each step.
    """

    def __init__(self, sigma: float = 0.1):
        check_number("sigma", sigma, 0)
        self.sigma = float(sigma)

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Draw noise ``(environments, actions)`` for the next step, on the device of `rng`."""

    def choose(self, policy: Policy, output: Tensor, rng: torch.Generator) -> Tensor:
        best = policy.mode(output)
        return (best + self.draw(tuple(best.shape), rng)).clamp_(-1.0, 1.0)

    def check(self, policy: Policy) -> None:
        if policy.discrete:
            name = type(self).__name__
            sampled = "Sampled, " if policy.stochastic else ""
            raise ValueError(
                f"exploration is {name} and actions are discrete; expected {sampled}EpsilonGreedy or Random"
            )


class Gaussian(Additive):
    """Independent normal noise (Fujimoto et al. 2018, arXiv:1802.09477)."""

    def draw(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=rng, device=rng.device).mul_(self.sigma)


class OrnsteinUhlenbeck(Additive):
    """Noise x that persists over steps: x ← x − θ·x·dt + σ·√dt·N(0, 1), from 0 at the start of an episode.

    As in DDPG (Lillicrap et al. 2016, arXiv:1509.02971), which states θ and σ but not dt. With dt = 1, the standard
    deviation of x converges to σ / √(1 − (1 − θ)²), .38 by default.

    Args:
        sigma: Standard deviation of the noise added per √dt.
        theta: Decay of x per dt; at most 1 / dt.
        dt: Time of one step.
    """

    def __init__(self, sigma: float = 0.2, theta: float = 0.15, dt: float = 1.0):
        super().__init__(sigma)
        check_number("theta", theta, 0)
        check_number("dt", dt, 0, above_low=True)
        if theta * dt > 1:
            raise ValueError(f"theta is {theta!r} and dt {dt!r}; expected theta of at most 1 / dt")
        self.theta = float(theta)
        self.dt = float(dt)
        self._x: Tensor | None = None

    def draw(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        x = self._x
        if x is None or x.shape != shape:
            x = torch.zeros(shape)
        x = x.to(rng.device)
        fresh = torch.randn(shape, generator=rng, device=rng.device)
        self._x = x * (1.0 - self.theta * self.dt) + self.sigma * self.dt**0.5 * fresh
        return self._x

    def start(self, which: np.ndarray) -> None:
        if self._x is not None and len(self._x) != len(which):  # a run resumed with another number of environments
            self._x = None
        if self._x is not None:
            self._x = self._x.masked_fill(torch.as_tensor(which, device=self._x.device).unsqueeze(1), 0.0)

    def state_dict(self) -> dict[str, Any]:
        if self._x is None:
            return {"x": None}
        return {"x": self._x.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._x = None
        if state["x"] is not None:
            self._x = torch.as_tensor(np.array(state["x"]))


_KINDS = (Gaussian, OrnsteinUhlenbeck, Sampled, EpsilonGreedy, Noisy, Random, Greedy)
KINDS: dict[str, type[Exploration]] = {kind.__name__: kind for kind in _KINDS}


def make_exploration(kind: Exploration | str | Mapping[str, Any]) -> Exploration:
    """Return an exploration, or build one from a name or a mapping such as ``{"type": "Gaussian", "sigma": 0.1}``.

    Raises:
        ValueError: The type or an argument is unknown, or `kind` is neither an exploration, a name nor a mapping.
    """
    if isinstance(kind, Exploration):
        return kind
    if not isinstance(kind, str) and not (isinstance(kind, Mapping) and "type" in kind):
        raise ValueError(f"exploration is {kind!r}; expected an Exploration, or its type and arguments by name")
    return make_object(kind, KINDS, Exploration, "exploration")


def get_exploration_name(exploration: Exploration) -> str:
    """Return the name by which `exploration_class` finds the class of an exploration.

    Raises:
        TypeError: The class cannot be imported by its name.
    """
    kind = type(exploration)
    if KINDS.get(kind.__name__) is kind:
        return kind.__name__
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        raise TypeError(f"{kind.__qualname__} of {kind.__module__} cannot be imported by its name")
    return f"{kind.__module__}:{kind.__name__}"


def exploration_class(name: str) -> type[Exploration]:
    """Return the class of an exploration by its name, one of `KINDS` or ``module:Class``."""
    if ":" in name:
        return import_user_class(name, Exploration, "exploration")
    return KINDS[name]
