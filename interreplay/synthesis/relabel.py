"""Relabeling in hindsight: what was achieved becomes what was desired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.part import GOALS, Context
from interreplay.storage.columns import Columns, is_observation
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.synthesis.base import Synthesized, Synthesizer, refuse_integers
from interreplay.transitions import Transitions

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
GoalFn = Callable[[np.ndarray, np.ndarray, dict[str, Any]], Any]
"""``(achieved, desired, info)``, of one row or of many, as gymnasium-robotics' `GoalEnv` defines it."""


class Relabel(Synthesizer):
    """A row's desired goal becomes the next achieved goal of a step of its episode, with probability k / (k + 1).

    The reward and the termination of such a row are computed anew: the reward of a transition depends on where it led
    and what was wanted there, compute_reward(s'.achieved_goal, s'.desired_goal) (Andrychowicz et al. 2017,
    arXiv:1707.01495). All other rows stay as they were stored.

    With a `blend`, anchor and partners of a row are relabeled first, all or none, each with a step of its own
    episode; then the blend is made; then the reward and the termination of blended rows are computed from the
    blended goals. A reward is never blended.

    Args:
        k: Relabeled rows per row that keeps its goal; 0 relabels none.
        compute_reward: The environment's, such as ``env.unwrapped.compute_reward``; ``info`` is ``{}``. May be
            given later, with `connect`.
        compute_terminated: The environment's; without it a row's termination stays as it was stored.
        blend: Mixes the relabeled rows; None mixes nothing.

    Raises:
        ValueError: When k is negative, or the blend recomputes termination in another way.
    """

    recomputes_rewards = True

    def __init__(
        self,
        k: float = 4,
        compute_reward: GoalFn | None = None,
        compute_terminated: GoalFn | None = None,
        blend: Synthesizer | None = None,
    ):
        check_number("k", k, 0)
        if blend is not None and blend.recomputes_termination:
            raise ValueError("the blend has a termination_fn; expected none, compute_terminated tells what terminates")
        self.probability = k / (k + 1.0)
        self.compute_reward, self.compute_terminated, self.blend = compute_reward, compute_terminated, blend
        self.uses_neighbors = k > 0 or blend is not None

    @property
    def wants_goal_functions(self) -> bool:  # type: ignore[override]
        """Whether none were given at construction."""
        return self.compute_reward is None

    def connect(self, context: Context) -> None:
        """Take an environment's functions, unless others were given at construction."""
        if self.compute_reward is None and context.compute_reward is not None:
            self.compute_reward, self.compute_terminated = context.compute_reward, context.compute_terminated
        if self.blend is not None:
            self.blend.connect(context)

    def check(self, columns: Columns) -> None:
        names = [f"obs.{ACHIEVED}", f"obs.{DESIRED}"]
        if not all(name in columns for name in names):
            given = ", ".join(filter(is_observation, columns))
            raise ValueError(f"hindsight needs Dict observations with {ACHIEVED} and {DESIRED}; got {given}")
        refuse_integers({name: columns[name] for name in names}, "relabeled")
        if columns[names[0]] != columns[names[1]]:
            raise ValueError(f"{ACHIEVED} is {columns[names[0]]}, {DESIRED} {columns[names[1]]}; expected the same")
        if self.blend is not None:
            self.blend.check(columns)

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        if not self.uses_neighbors:
            return Synthesized(anchors)
        chosen = torch.from_numpy(rng.random(len(anchors)) < self.probability).to(anchors.rewards.device)
        if GOALS not in neighbors.extras:
            raise ValueError("there are no goals beside the neighbors; expected the neighborhood HindsightGoals")
        goals = neighbors.extras[GOALS]
        rows = self.with_recomputed_rewards(with_goals(anchors, goals[:, 0], chosen), chosen)
        if self.blend is None:
            return Synthesized(rows)
        chosen = chosen.unsqueeze(1).expand(goals.shape[0], goals.shape[1] - 1)
        made = self.blend(rows, self.with_recomputed_rewards(with_goals(neighbors, goals[:, 1:], chosen), chosen), rng)
        if made.mix is None:
            return made
        return Synthesized(self.with_recomputed_rewards(made.rows, made.mix < 1), made.mix)

    def with_recomputed_rewards(self, rows: Transitions, changed: Tensor) -> Transitions:
        """Return `rows` ``(n, ...)`` or ``(n, m, ...)`` with rewards and termination anew where `changed`."""
        if self.compute_reward is None:
            raise ValueError("there is no compute_reward; pass the environment's, env.unwrapped.compute_reward")
        shape, goals = rows.rewards.shape, []
        for name in (ACHIEVED, DESIRED):
            part = rows.next_obs[name].numpy(force=True)
            goals.append(part.reshape(-1, *part.shape[len(shape) :]))
        rewards = torch.from_numpy(each(self.compute_reward, *goals)).to(rows.rewards).view(shape)
        rows = rows.replace(rewards=torch.where(changed, rewards, rows.rewards), discounts=None)
        if self.compute_terminated is None:
            return rows
        terminated = torch.from_numpy(each(self.compute_terminated, *goals)).to(changed.device, torch.bool).view(shape)
        return rows.replace(terminated=torch.where(changed, terminated, rows.terminated))

    def use_view(self, view: ReadView) -> None:
        super().use_view(view)
        if self.blend is not None:
            self.blend.use_view(view)

    def prepare(self, storage: Storage, rng: np.random.Generator) -> None:
        if self.blend is not None:
            self.blend.prepare(storage, rng)

    def evict(self, storage: Storage, slots: Tensor) -> None:
        if self.blend is not None:
            self.blend.evict(storage, slots)

    def observe(self, storage: Storage, slots: Tensor) -> None:
        if self.blend is not None:
            self.blend.observe(storage, slots)

    def anneal(self, progress: float) -> None:
        if self.blend is not None:
            self.blend.anneal(progress)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.blend is None else {"blend": self.blend.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.blend is not None:
            self.blend.load_state_dict(state["blend"])


def with_goals(rows: Transitions, goals: Tensor, chosen: Tensor) -> Transitions:
    """Return `rows` whose desired goals, before and after, are `goals` where `chosen`, bool of the rows' shape."""
    choose = chosen.view(chosen.shape + (1,) * (goals.dim() - chosen.dim()))
    before, after = (obs | {DESIRED: torch.where(choose, goals, obs[DESIRED])} for obs in (rows.obs, rows.next_obs))
    return rows.replace(obs=before, next_obs=after)


def each(fn: GoalFn, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """Return values ``(n,)`` of `fn` for goals ``(n, ...)``, all at once where it can, else row by row.

    What takes rows one at a time is known by a value of another shape, or by an error, for many rows.
    """
    try:
        values = np.asarray(fn(achieved, desired, {}))
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape == achieved.shape[:1]:
        return values
    return np.array([fn(mine, wanted, {}) for mine, wanted in zip(achieved, desired, strict=True)])
