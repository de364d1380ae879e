"""The base class of selectors, neighborhoods and synthesizers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import InterreplayWarning, PartError
from interreplay.storage.columns import Columns
from interreplay.storage.read_views import OneStep, ReadView
from interreplay.transitions import Observation, Transitions, map_observation

Score = Callable[[Transitions, Collection[str]], Mapping[str, Tensor]]
"""Maps rows and names of scores to the scores ``(n,)`` by name."""


@dataclass(frozen=True)
class Context:
    """Functions and spaces that an algorithm provides to the parts of its replay buffer; None if unavailable.

    Attributes:
        policy: Maps observations ``(n, ...)`` to the outputs of the current policy ``(n, ...)``, without gradients.
        policy_is_gaussian: Whether these outputs are [mean; log std].
        compute_reward: The environment's function of ``(achieved, desired, info)``, for one row or many.
        compute_terminated: The environment's function with the arguments of `compute_reward`.
        observation_space: Observation space of a single environment.
        action_space: Action space of a single environment.
        device: Device of the policy.
        score: Maps rows ``(n, ...)`` with ``discounts`` and names of scores to the scores ``(n,)`` under the current
            networks, by forward passes only. `interreplay.learning.update` defines the names.
        environment: Environment id.
        environment_arguments: Keyword arguments of the environment.
        simulate: Maps rows to numbers by name that measure their deviation from the simulator.
    """

    policy: Callable[[Observation], Tensor] | None = None
    policy_is_gaussian: bool = False
    compute_reward: Callable[..., Any] | None = None
    compute_terminated: Callable[..., Any] | None = None
    observation_space: Any = None
    action_space: Any = None
    device: torch.device | None = None
    score: Score | None = None
    environment: str | None = None
    environment_arguments: Mapping[str, Any] | None = None
    simulate: Callable[[Transitions], Mapping[str, float]] | None = None

    def on_rows(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `policy` or `score` on its device, for observations or rows in main memory."""
        device = self.device
        if device is None or device.type == "cpu":
            return fn

        def call(rows: Any, *arguments: Any) -> Any:
            if isinstance(rows, Transitions):
                rows = rows.to(device)
            else:
                rows = map_observation(lambda part: part.to(device), rows)
            return map_observation(Tensor.cpu, fn(rows, *arguments))

        return call


GOALS = "hindsight_goals"
"""Name of the extra column ``(n, 1 + m, d)`` of goals: one for the anchor, then one for each of its m partners."""
MISSING = "without_partner"
"""Name of the extra column ``(n,)``: whether the anchor takes the place of a missing first partner."""


class Part:
    """A part of a replay buffer. By default, every method only calls the same method of the parts inside this one.

    Attributes:
        independent_rows: Whether the rows of a batch are independent, so that a large batch can be split into several.
        follows_episodes: Whether this part reads the predecessors or successors of a row.
        columns_wanted: Names of extra columns to record with each row if the algorithm can: ``"behavior"``, the output
            of the policy that acted, and ``"success"``, the success reported by the environment.
        scores_wanted: Names of scores (see `interreplay.learning.update`) to receive with the TD errors of each batch
            if the algorithm computes them.
        needs: Names of the scores and columns without which this part cannot work.
        wants_goal_functions: Whether `connect` should provide the environment's ``compute_reward``.
        view: How this part reads rows.
        owner: Identifies the replay buffer whose rows this part keeps state of; None until rows are added.
    """

    independent_rows = True
    follows_episodes: bool = False
    columns_wanted: frozenset[str] = frozenset()
    scores_wanted: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    wants_goal_functions: bool = False
    view: ReadView = OneStep()
    owner: object = None

    def inner_parts(self) -> Mapping[str, Part]:
        """Return the parts that this part consists of, by name."""
        return {}

    def use_view(self, view: ReadView) -> None:
        """Read rows by `view`. The buffer calls this at construction and whenever its view changes."""
        self.view = view
        for part in self.inner_parts().values():
            part.use_view(view)

    def check(self, columns: Columns) -> None:
        """Reject rows that this part cannot process.

        Args:
            columns: Columns of a stored row, ``{name: (shape, dtype)}``.

        Raises:
            ValueError: With the name of the column and its dtype.
        """
        for part in self.inner_parts().values():
            part.check(columns)

    def connect(self, context: Context) -> None:
        """Use the functions in `context`. Called, possibly several times, before the first rows of a run are added.

        Recorded rows may be stored already.
        """
        for part in self.inner_parts().values():
            part.connect(context)

    def check_rows(self, rows: Transitions) -> None:
        """Reject new rows ``(n, ...)``, which have the stored dtypes, before any of them is stored."""
        for part in self.inner_parts().values():
            part.check_rows(rows)

    def evict(self, storage: Any, slots: Tensor) -> None:
        """Drop any state kept for the rows in `slots` ``(n,)`` before they are overwritten; unique, oldest first."""
        for part in self.inner_parts().values():
            part.evict(storage, slots)

    def observe(self, storage: Any, slots: Tensor) -> None:
        """Process rows that were just stored in `slots` ``(n,)``; unique, in write order."""
        for part in self.inner_parts().values():
            part.observe(storage, slots)

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the completed share of the run, from 0 to 1."""
        for part in self.inner_parts().values():
            part.anneal(progress)

    def nbytes(self, capacity: int, features: int) -> int:
        """Return the memory in bytes that this part adds to a full storage with `features` numbers in z = [s; a]."""
        return sum(part.nbytes(capacity, features) for part in self.inner_parts().values())

    def statistics(self) -> dict[str, float]:
        """Return numbers that describe the current state, for the results of a run."""
        found: dict[str, float] = {}
        for part in self.inner_parts().values():
            found |= part.statistics()
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume. Arrays may share memory with this part."""
        return {name: part.state_dict() for name, part in self.inner_parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        for name, part in self.inner_parts().items():
            part.load_state_dict(state[name])


class AnnealedPart(Part):
    """A part with a schedule.

    Attributes:
        progress: Completed share of the run, from 0 to 1.
    """

    progress = 0.0

    def anneal(self, progress: float) -> None:
        self.progress = min(max(float(progress), 0.0), 1.0)

    def state_dict(self) -> dict[str, Any]:
        return {"progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = float(state["progress"])


def overrides(part: Part, method: str) -> bool:
    """Return whether a part, or a part inside it, has its own `method`."""
    if getattr(type(part), method) is not getattr(Part, method):
        return True
    return any(overrides(inner, method) for inner in part.inner_parts().values())


def bind(part: Part, owner: object) -> None:
    """Record the replay buffer of a part, and warn if it keeps state of another buffer's rows in the same slots.

    Args:
        part: The part; the parts inside it are also bound.
        owner: Identifies the buffer; copies of a buffer have copies of its parts.
    """
    if type(part).observe is not Part.observe:
        if part.owner not in (None, owner):
            message = f"this {type(part).__name__} keeps state of another replay buffer's rows; create one per buffer"
            warnings.warn(message, InterreplayWarning, stacklevel=4)
        part.owner = owner
    for inner in part.inner_parts().values():
        bind(inner, owner)


def union(parts: Iterable[Any], attribute: str) -> frozenset[str]:
    """Return the union of an attribute of several parts, such as ``"needs"``."""
    found: set[str] = set()
    for part in parts:
        found |= getattr(part, attribute)
    return frozenset(found)


def class_names(part: Part) -> str:
    """Return the class of a part and of the parts inside it, such as ``"Combined(inner=Prioritized)"``."""
    inner = [f"{name}={class_names(each)}" for name, each in part.inner_parts().items()]
    name = type(part).__name__
    if not inner:
        return name
    return f"{name}({', '.join(inner)})"


def result_error(part: Part, answer: object, expected: type, how: str) -> PartError:
    """Return the error for a return value of a type that violates the contract; `how` lists the type's arguments."""
    name = type(part).__name__
    return PartError(f"{name} returned a {type(answer).__name__}; expected {expected.__name__}{how}")


def check_tensor(
    source: str,
    what: str,
    given: Any,
    shape: Sequence[int | str],
    dtype: torch.dtype | None = None,
    limits: tuple[float, float] | None = None,
) -> None:
    """Check a tensor that a user's part or function returned.

    Args:
        source: Name of the part or function.
        what: Name of the tensor.
        given: The tensor.
        shape: Expected shape.
        dtype: Expected dtype; None for any float dtype.
        limits: Smallest and largest value; NaN is outside. None accepts all values.

    Raises:
        PartError: With what was returned and what is expected.
    """
    size = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
    expected = f"expected a tensor of shape ({size}) of {dtype or 'a float dtype'}"
    if not isinstance(given, Tensor):
        raise PartError(f"{source} returned {what} of type {type(given).__name__}; {expected}")
    right_dtype = given.is_floating_point() if dtype is None else given.dtype is dtype
    if tuple(given.shape) != tuple(shape) or not right_dtype:
        raise PartError(f"{source} returned {what} of shape {tuple(given.shape)} of {given.dtype}; {expected}")
    if limits is not None:
        low, high = limits
        tolerance = 1e-6 if given.is_floating_point() else 0
        inside = (given >= low) & (given <= high + tolerance)
        if not bool(inside.all()):
            wrong = given[~inside].flatten()[0].item()
            raise PartError(f"{source} returned {what} with the value {wrong}; expected {low} to {high}")


def standard_normal(shape: Sequence[int], rng: np.random.Generator) -> Tensor:
    """Draw standard normal numbers (float32) from a torch generator seeded by `rng`.

    For 256 rows of HalfCheetah this takes half the time of numpy's generator.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**32)))
    return torch.randn(tuple(shape), generator=generator)
