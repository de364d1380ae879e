"""ModelBased: stored rows beside those that a learned model makes up."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.catalogue import Kind
from interreplay.environments.terminations import TerminationFn, as_termination_fn
from interreplay.errors import accepted_names
from interreplay.experience.imagination import Imagination
from interreplay.experience.learned_models.dynamics import PATIENCE, Dynamics
from interreplay.experience.learned_models.fitting import FitSettings
from interreplay.experience.learned_models.schedules import Limits, Schedule, as_schedule
from interreplay.experience.mix import Mix, made_source, seed_of
from interreplay.part import Context
from interreplay.selection.shares import Share
from interreplay.storage.columns import Columns
from interreplay.synthesis.base import reject_integers
from interreplay.transitions import Transitions

REAL, MODEL = "real", "model"
STARTS = ("stored", "sampled")


class ModelBased(Mix):
    """A share of each batch from what happened, the rest from short rollouts of a learned model (MBPO).

    Janner et al. 2019, When to trust your model, arXiv:1906.08253. Every `fit_every` env steps an ensemble is fitted
    to what is stored, and rollouts of the current policy begin in stored states; their rows are kept for `keep_fits`
    fits. Costs the fit, seconds to minutes each, and pays where env steps are dear and dynamics smooth; allow many
    updates per step.

    Args:
        real: What stores and draws real rows: a replay method by name, a class, or ``{"type": "NMER", "k": 10}``.
        model: "stochastic", each member a Gaussian, or "deterministic", means alone and dropout.
        virtual: What stores and draws the model's rows, as `real`.
        real_share: Of each batch; ``(start, end)`` moves over the run.
        fit_every: Env steps between fits.
        fit_rows: Most stored rows of a fit, drawn without replacement; None for all.
        rollouts: That begin, per env step.
        rollout_length: Steps of each, or (start, end, from, to): growing between two env steps. None for the paper's
            in its environments, 1 elsewhere.
        keep_fits: Fits for which rows are kept.
        starts: Where rollouts begin: "stored", states of rows drawn uniformly, or "sampled", those of rows as `real`
            draws them. None for the first, and for the second where rows are relabeled with goals of hindsight.
        members: Of the ensemble.
        elites: Of them that predict.
        model_hiddens: Widths of their layers.
        model_learning_rate: Of Adam.
        model_batch_size: Rows per step of each member.
        holdout: Share of the rows that is held out.
        patience: Epochs without an improvement by 1 % after which a member stops; None for 5, deterministic 10.
        max_epochs: Most epochs of a fit; None for no bound.
        dropout: While fitting; None for 0, deterministic .05.
        model_matrix_dtype: Of products between hidden layers while fitting, "float32" or "bfloat16".
        action_noise: Standard deviation added to actions of a policy that is no distribution, as TD3's.
        termination_fn: ``(s, a, s') -> (n,) bool``, or an environment's id; None for the run's environment.
        capacity: Real rows to keep.
        n_step: Of real rows.
        gamma: Discount factor per step.
        seed: Of all randomness.
        device: On which rows are kept and models fitted.

    Attributes:
        dynamics: The ensemble.

    Raises:
        ValueError: When an argument is out of range, or the real part is no replay buffer.
    """

    def __init__(
        self,
        real: Kind | Mapping[str, Any] = "Uniform",
        model: str = "stochastic",
        *,
        virtual: Kind | Mapping[str, Any] = "Uniform",
        real_share: Share = 0.05,
        fit_every: int = 250,
        fit_rows: int | None = 100_000,
        rollouts: float = 400,
        rollout_length: int | Schedule | None = None,
        keep_fits: int = 4,
        starts: str | None = None,
        members: int = 7,
        elites: int = 5,
        model_hiddens: tuple[int, ...] = (200, 200, 200, 200),
        model_learning_rate: float = 1e-3,
        model_batch_size: int = 256,
        holdout: float = 0.2,
        patience: int | None = None,
        max_epochs: int | None = None,
        dropout: float | None = None,
        model_matrix_dtype: str = "float32",
        action_noise: float = 0.1,
        termination_fn: TerminationFn | str | None = None,
        capacity: int = 1_000_000,
        n_step: int | tuple[int, int] = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        device: str = "cpu",
    ):
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        limits = Limits(fit_every, fit_rows, rollouts, as_schedule(rollout_length), keep_fits)
        if starts not in (*STARTS, None):
            raise ValueError(f"starts is {starts!r}; {accepted_names(str(starts), STARTS)}")
        settings = FitSettings(
            model_batch_size, model_learning_rate, holdout, patience or PATIENCE.get(model, 1), max_epochs
        )
        ensemble = (members, elites, tuple(model_hiddens), dropout, settings, device, model_matrix_dtype)
        self.dynamics = Dynamics(model, *ensemble)
        self._virtual = virtual, {"gamma": gamma, "device": device, "seed": seed_of(seed, 1)}
        common = {"capacity": capacity, "n_step": n_step, "gamma": gamma, "device": device, "seed": seed}
        parts = {REAL: made_source(REAL, real, common), MODEL: self._make_virtual(limits.rows_of(1))}
        super().__init__(parts, {REAL: real_share})
        if not isinstance(self.real, ReplayBuffer):
            raise ValueError(f"real is {self.real!r}; expected a replay buffer, to fit a model to what it stores")
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        self.recipe = {"type": type(self).__name__}
        self.recipe |= {name: value for name, value in given.items() if value != defaults[name]}
        hindsight = starts is None and self.real.synthesizer.recomputes_rewards
        self.imagination = Imagination(
            self.dynamics, limits, action_noise, starts == "sampled" or hindsight, as_termination_fn(termination_fn)
        )
        self._rng = np.random.default_rng(seed_of(seed, 2))
        self._seconds: dict[str, float] = {}  # not in the state, which is equal for equal runs

    @property
    def capacity(self) -> int:
        """Rows of the environment that can be stored; how many a model makes up changes over the run."""
        return int(self.real.capacity)

    @property
    def real(self) -> Any:
        """The replay buffer of what happened."""
        return self.sources[REAL]

    @property
    def virtual(self) -> Any:
        """The replay buffer of what a model made up."""
        return self.sources[MODEL]

    def _make_virtual(self, capacity: int) -> Any:
        kind, common = self._virtual
        made = made_source(MODEL, kind, common | {"capacity": capacity})
        if not isinstance(made, ReplayBuffer):
            raise ValueError(f"virtual is {made!r}; expected a replay buffer")
        return made

    # -- what an algorithm asks ---------------------------------------------------------------------

    @property
    def wants_goal_functions(self) -> bool:
        return super().wants_goal_functions or self.imagination.has_goals

    def check(self, columns: Columns) -> None:
        reject_integers(columns, "predicted", also=("actions",))
        super().check(columns)
        self.imagination.use_columns(columns)

    def connect(self, context: Context) -> None:
        self.imagination.connect(context)
        super().connect(context)

    def nbytes(self, columns: Columns) -> int:
        """Return the bytes of real rows, and of as many virtual ones as the longest rollouts make."""
        most = self._make_virtual(self.imagination.most_rows)
        return self.real.nbytes(columns) + most.nbytes(columns)

    # -- rows ---------------------------------------------------------------------------------------

    def add(self, transitions: Transitions) -> None:
        """Take rows that happened; those of the model are its own."""
        self.real.add(transitions)
        self.imagination.env_steps += len(transitions)

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        self.real.truncate_episodes(episodes)

    def _counts(self, size: int) -> dict[str, int]:
        """Return the rows of each part in the next batch, after a fit and rollouts where they are due."""
        if self.imagination.due(len(self.real), self.real.capacity):
            self.imagine()
        return super()._counts(size)

    def imagine(self) -> None:
        """Fit the model to what is stored, and store rollouts of the current policy under it.

        Raises:
            ValueError: There is no policy; `connect` brings it.
        """
        started = time.perf_counter()
        self.imagination.fit(self.real, self._rng)
        fitted = time.perf_counter()
        self._ensure_room()
        for rows in self.imagination.rollouts(self.real, self._rng):
            self.virtual.add(rows)
        self._seconds = {"fit_seconds": fitted - started, "rollout_seconds": time.perf_counter() - fitted}

    def _ensure_room(self) -> None:
        """Store as many rows as rollouts of now make in the fits that they are kept for, the newest of before too."""
        capacity, old = self.imagination.rows, self.virtual
        if capacity == old.capacity:
            return
        made = self._make_virtual(capacity)
        made.rng = old.rng
        if self.imagination.context is not None:
            made.connect(self.imagination.context)
        if len(old):
            newest = torch.arange(old.storage.written - min(len(old), capacity), old.storage.written)
            made.add(old.storage[(newest % old.capacity).to(old.device)])
        self.sources[MODEL] = made

    def statistics(self) -> dict[str, float]:
        """Return numbers about the model: its last fit and rollouts, and the seconds that they took in this process."""
        found = self.dynamics.statistics() | self.imagination.found
        return super().statistics() | {f"{MODEL}/{name}": value for name, value in (found | self._seconds).items()}

    # -- state --------------------------------------------------------------------------------------

    def state_view(self) -> dict[str, Any]:
        own = {
            "dynamics": self.dynamics.state_dict(),
            "imagination": self.imagination.state_dict(),
            "rng": self._rng.bit_generator.state,
            "virtual_rows": self.virtual.capacity,
        }
        return super().state_view() | {"model": own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; the next batch is the one that the saved source would have drawn.

        Raises:
            ValueError: It is the state of other sources, or of another model.
        """
        if "model" not in state:
            raise ValueError(f"the state is of the sources {list(state['sources'])} without a model; expected one")
        own = state["model"]
        if int(own["virtual_rows"]) != self.virtual.capacity:
            self.sources[MODEL] = self._make_virtual(int(own["virtual_rows"]))
            if self.imagination.context is not None:
                self.virtual.connect(self.imagination.context)
        super().load_state_dict(state)
        self.dynamics.load_state_dict(own["dynamics"])
        self.imagination.load_state_dict(own["imagination"])
        self._rng.bit_generator.state = own["rng"]
