"""Hindsight relabeling: achieved goals become desired goals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from interreplay.environments.goal_functions import ACHIEVED, DESIRED, GoalFn, each
from interreplay.errors import InterreplayWarning, check_number
from interreplay.part import GOALS, MISSING, Context
from interreplay.storage.columns import Columns, is_observation, reject_integers
from interreplay.storage.ring import Storage
from interreplay.synthesis.base import Synthesized, Synthesizer
from interreplay.transitions import Transitions


class Relabel(Synthesizer):
    """Replaces a row's desired goal by a goal achieved in its episode, with probability k / (k + 1).

    The reward of a relabeled row is recomputed as compute_reward(s'.achieved_goal, s'.desired_goal), and so is its
    termination (Andrychowicz et al. 2017, arXiv:1707.01495). All other rows are unchanged.

    With a `blend`, the anchor and the partners of a row are relabeled together or not at all, each with a step of its
    own episode. Then they are blended, and the rewards and terminations of blended rows are computed from the blended
    goals. Rewards are never blended. Rows without a neighbor are not blended. The row weights of the blend are
    kept; its predictive variances are dropped, because rewards are recomputed.

    Args:
        k: Relabeled rows per row that keeps its goal; 0 relabels none.
        compute_reward: The environment's function, such as ``env.unwrapped.compute_reward``; ``info`` is ``{}``. It
            can be set later with `connect`.
        compute_terminated: The environment's function; without it, termination does not change.
        blend: Blends the relabeled rows; None disables blending.

    Raises:
        ValueError: If k is negative, a function is not callable, or the blend is not a synthesizer or has its own
            termination function.
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
        for name, function in (("compute_reward", compute_reward), ("compute_terminated", compute_terminated)):
            if function is not None and not callable(function):
                raise ValueError(f"{name} is {function!r}; expected a function such as env.unwrapped.{name}")
        if blend is not None and not isinstance(blend, Synthesizer):
            raise ValueError(f"blend is {blend!r}; expected an object of a class derived from Synthesizer")
        if blend is not None and blend.recomputes_termination:
            raise ValueError("the blend has a termination_fn; expected none, because compute_terminated is used")
        self.probability = k / (k + 1.0)
        self.compute_reward = compute_reward
        self.compute_terminated = compute_terminated
        self.blend = blend
        self._compares = False  # whether the next rewards are compared with those of the environment's steps
        self._inner = {} if blend is None else {"blend": blend}
        self.uses_neighbors = k > 0 or blend is not None
        self.independent_rows = blend is None or blend.independent_rows

    @property
    def wants_goal_functions(self) -> bool:  # type: ignore[override]
        return self.compute_reward is None

    def check(self, columns: Columns) -> None:
        achieved = f"obs.{ACHIEVED}"
        desired = f"obs.{DESIRED}"
        if achieved not in columns or desired not in columns:
            given = ", ".join(filter(is_observation, columns))
            raise ValueError(f"hindsight needs Dict observations with {ACHIEVED} and {DESIRED}; got {given}")
        reject_integers({name: columns[name] for name in (achieved, desired)}, "relabeled")
        if columns[achieved] != columns[desired]:
            raise ValueError(
                f"{ACHIEVED} is {columns[achieved]}, {DESIRED} is {columns[desired]}; expected equal shapes and dtypes"
            )
        super().check(columns)

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        if not self.uses_neighbors:
            return Synthesized(anchors)
        chosen = torch.from_numpy(rng.random(len(anchors)) < self.probability)
        if GOALS not in neighbors.extras:
            raise ValueError("the neighbors have no goals; expected the neighborhood HindsightGoals")
        goals = neighbors.extras[GOALS]
        rows = self.with_recomputed_rewards(with_goals(anchors, goals[:, 0], chosen), chosen)
        if self.blend is None:
            return Synthesized(rows)
        if goals.shape[1] == 1:
            raise ValueError(
                "there are no partners to blend with; expected the neighborhood HindsightGoals(partners=...)"
            )
        chosen = chosen.unsqueeze(1).expand(goals.shape[0], goals.shape[1] - 1)
        partners = self.with_recomputed_rewards(with_goals(neighbors, goals[:, 1:], chosen), chosen)
        made = self.blend(rows, partners, rng)
        if made.mix is None:
            return made
        mix = made.mix
        if MISSING in neighbors.extras:
            mix = mix.masked_fill(neighbors.extras[MISSING], 1.0)
        rows = self.with_recomputed_rewards(made.rows, mix < 1)
        return Synthesized(rows, mix, row_weights=made.row_weights)

    def with_recomputed_rewards(self, rows: Transitions, changed: Tensor) -> Transitions:
        """Return `rows` ``(n, ...)`` or ``(n, m, ...)`` with new rewards and terminations where `changed`."""
        if self.compute_reward is None:
            raise ValueError("compute_reward is None; expected a function such as env.unwrapped.compute_reward")
        shape = rows.rewards.shape
        goals = []
        for name in (ACHIEVED, DESIRED):
            part = rows.next_obs[name].numpy()
            goals.append(part.reshape(-1, *part.shape[len(shape) :]))
        rewards = torch.from_numpy(each(self.compute_reward, *goals)).to(rows.rewards).view(shape)
        if self._compares and not changed.all():
            self._compares = False
            warn_of_other_rewards(rows.rewards[~changed], rewards[~changed])
        rows = rows.replace(rewards=torch.where(changed, rewards, rows.rewards), discounts=None)
        if self.compute_terminated is None:
            return rows
        terminated = torch.from_numpy(each(self.compute_terminated, *goals)).to(torch.bool).view(shape)
        return rows.replace(terminated=torch.where(changed, terminated, rows.terminated))

    def inner_parts(self) -> Mapping[str, Synthesizer]:
        return self._inner

    def connect(self, context: Context) -> None:
        """Use the environment's functions unless others were given at construction."""
        super().connect(context)
        if self.compute_reward is None and context.compute_reward is not None:
            self.compute_reward = context.compute_reward
            self._compares = True
            if self.compute_terminated is None:
                self.compute_terminated = context.compute_terminated

    def prepare(self, storage: Storage, rng: np.random.Generator) -> None:
        if self.blend is not None:
            self.blend.prepare(storage, rng)


def warn_of_other_rewards(returned: Tensor, recomputed: Tensor) -> None:
    """Warn if rewards ``(n,)`` of steps differ from those that ``compute_reward`` returns for the same goals."""
    differs = ~torch.isclose(returned, recomputed, rtol=0.01, atol=1e-4)
    if differs.double().mean() > 0.1:  # rounded goals can change a few sparse rewards
        warnings.warn(
            f"a step of the environment returned the reward {float(returned[differs][0]):.4g}, and its compute_reward "
            f"returns {float(recomputed[differs][0]):.4g}; relabeled rows contain the latter, without terms of the "
            "action and changes by wrappers",
            InterreplayWarning,
            stacklevel=2,
        )


def with_goals(rows: Transitions, goals: Tensor, chosen: Tensor) -> Transitions:
    """Return `rows` with the desired `goals`, in s and s', where `chosen` (bool of the shape of the rows)."""
    choose = chosen.view(chosen.shape + (1,) * (goals.dim() - chosen.dim()))
    return rows.replace(
        obs=rows.obs | {DESIRED: torch.where(choose, goals, rows.obs[DESIRED])},
        next_obs=rows.next_obs | {DESIRED: torch.where(choose, goals, rows.next_obs[DESIRED])},
    )
