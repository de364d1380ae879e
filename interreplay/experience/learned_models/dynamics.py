"""Dynamics: an ensemble that predicts where an action leads, and how sure it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.errors import accepted_names
from interreplay.experience.learned_models.fitting import Fit, FitSettings, fit, split
from interreplay.experience.learned_models.losses import log_variances
from interreplay.experience.learned_models.networks import Networks
from interreplay.experience.learned_models.scales import Scale, calibration
from interreplay.learning.networks.layers import MATRIX_DTYPES

STOCHASTIC, DETERMINISTIC = "stochastic", "deterministic"
PATIENCE = {STOCHASTIC: 5, DETERMINISTIC: 10}
DROPOUT = {STOCHASTIC: 0.0, DETERMINISTIC: 0.05}
DROPOUT_PASSES = 10
"""Passes with units left out, of which the spread of a deterministic model is made."""
ROWS_AT_ONCE = 2048
"""Rows of one pass of one member, whose activations then stay in the cache."""
CHECKED_ROWS = 4096
"""Rows of the holdout that calibration looks at."""


class Predicted(NamedTuple):
    """Where steps lead.

    Attributes:
        states: ``(n, d)``.
        rewards: ``(n,)``, or None where the model does not predict them.
    """

    states: Tensor
    rewards: Tensor | None


class Dynamics:
    """m networks that predict [r; Δs] of [s; a], standardized (Janner et al. 2019, arXiv:1906.08253, appendix C).

    A stochastic one predicts a Gaussian, a deterministic one the mean alone, with dropout while it learns. A step is
    predicted by one of the elites, the members of the smallest errors on held-out rows, drawn anew for each row.

    Args:
        kind: "stochastic" or "deterministic".
        members: m.
        elites: How many of them predict.
        hiddens: Widths of the hidden layers.
        dropout: Of the hidden layers but the first while learning; None for that of the kind, 0 or .05.
        settings: How it is fitted.
        device: On which.
        matrix_dtype: In which matrices between hidden layers are multiplied while fitting, "float32" or "bfloat16".

    Attributes:
        elites: Numbers of the elites, the best first; none before the first fit.
        fitted: What the last fit came to, None before.
        calibration: What it said of held-out rows, by name.

    Raises:
        ValueError: There is no such kind, or more elites than members.
    """

    def __init__(
        self,
        kind: str = STOCHASTIC,
        members: int = 7,
        elites: int = 5,
        hiddens: tuple[int, ...] = (200, 200, 200, 200),
        dropout: float | None = None,
        settings: FitSettings | None = None,
        device: str | torch.device = "cpu",
        matrix_dtype: str = "float32",
    ):
        if matrix_dtype not in MATRIX_DTYPES:
            raise ValueError(f"model_matrix_dtype is {matrix_dtype!r}; {accepted_names(matrix_dtype, MATRIX_DTYPES)}")
        if kind not in PATIENCE:
            raise ValueError(f"model is {kind!r}; {accepted_names(str(kind), list(PATIENCE))}")
        check_number("members", members, 1, whole=True)
        check_number("elites", elites, 1, members, whole=True)
        dropout = DROPOUT[kind] if dropout is None else dropout
        check_number("dropout", dropout, 0, 1, below_high=True)
        if not hiddens or any(not isinstance(width, int) or width < 1 for width in hiddens):
            raise ValueError(f"model_hiddens is {hiddens!r}; expected widths of layers, such as (200, 200, 200, 200)")
        self.kind, self.members, self.count, self.hiddens, self.dropout = kind, members, elites, tuple(hiddens), dropout
        self.settings = settings or FitSettings(patience=PATIENCE[kind])
        self.device, self.matrix_dtype = torch.device(device), MATRIX_DTYPES[matrix_dtype]
        self.networks: Networks | None = None
        self.elites: list[int] = []
        self.fitted: Fit | None = None
        self.calibration: dict[str, float] = {}
        self._inputs, self._targets = (Scale(torch.zeros(0), torch.ones(0)) for _ in range(2))

    def fit(
        self, states: Tensor, actions: Tensor, next_states: Tensor, rewards: Tensor | None, rng: np.random.Generator
    ) -> Fit:
        """Fit all members to rows, from the weights of the last fit on where rows are of the same widths.

        Args:
            states: ``(n, d)``.
            actions: ``(n, a)``.
            next_states: ``(n, d)``.
            rewards: ``(n,)``, or None where these are not to be predicted.
            rng: Source of randomness.
        """
        inputs = torch.cat([states, actions], dim=1)
        changes = next_states - states
        targets = changes if rewards is None else torch.cat([rewards.unsqueeze(1), changes], dim=1)
        self._ensure_networks(inputs.shape[1], targets.shape[1], rng)
        assert self.networks is not None
        learned, held = (rows.to(self.device) for rows in split(len(inputs), self.settings.holdout, rng))
        self._inputs, self._targets = Scale.of(inputs[learned]), Scale.of(targets[learned])
        inputs, targets = self._inputs.apply(inputs), self._targets.apply(targets)
        self.fitted = fit(self.networks, inputs, targets, held, self.settings, rng)
        self.elites = self.fitted.elites(self.count)
        checked = held[:CHECKED_ROWS]
        self.calibration = calibration(*self.spread(inputs[checked], rng), targets[checked])
        return self.fitted

    def _ensure_networks(self, inputs: int, targets: int, rng: np.random.Generator) -> None:
        sizes = (inputs, *self.hiddens, 2 * targets if self.kind == STOCHASTIC else targets)
        if self.networks is None or self.networks.sizes != sizes:
            self.networks = self._networks(sizes, rng)

    def _networks(self, sizes: tuple[int, ...], rng: np.random.Generator) -> Networks:
        bounds = sizes[-1] // 2 if self.kind == STOCHASTIC else 0
        return Networks(self.members, sizes, rng, bounds, self.dropout, self.device, self.matrix_dtype)

    @torch.no_grad()
    def step(self, states: Tensor, actions: Tensor, rng: np.random.Generator) -> Predicted:
        """Predict where actions ``(n, a)`` lead from states ``(n, d)``, each row by an elite drawn for it."""
        assert self.networks is not None
        generator = torch.Generator(device=self.device).manual_seed(int(rng.integers(2**62)))
        rows = self._inputs.apply(torch.cat([states, actions], dim=1))
        drawn = torch.randint(len(self.elites), (len(rows),), generator=generator, device=self.device)
        width = len(self._targets.mean)
        found = rows.new_empty((len(rows), width))
        noise = torch.randn(found.shape, generator=generator, device=self.device) if self.networks.bounds else None
        for number, member in enumerate(self.elites):
            for which in torch.nonzero(drawn == number).flatten().split(ROWS_AT_ONCE):
                outputs = self.networks.of_member(member, rows[which])
                if noise is not None:
                    values = log_variances(outputs[:, width:], *(bound[member] for bound in self.networks.bounds))
                    outputs = outputs[:, :width] + torch.exp(0.5 * values) * noise[which]
                found[which] = outputs
        found = self._targets.undo(found)
        changes = found[:, width - states.shape[1] :]
        return Predicted(states + changes, found[:, 0] if width > states.shape[1] else None)

    @torch.no_grad()
    def spread(self, rows: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return means and variances ``(n, d)`` that the elites together predict for standardized rows ``(n, in)``.

        The variance between members, and the mean of theirs; of a deterministic model that between passes in which
        units are left out.
        """
        assert self.networks is not None
        elites = self.networks.some(torch.tensor(self.elites, device=self.device))
        outputs, width = elites.forward(rows).outputs, len(self._targets.mean)
        means = outputs[..., :width]
        if elites.bounds:
            own = torch.exp(log_variances(outputs[..., width:], *elites.bounds)).mean(dim=0)
            return means.mean(dim=0), own + means.var(dim=0, correction=0)
        generator = torch.Generator(device=self.device).manual_seed(int(rng.integers(2**62)))
        passes = [means]
        if elites.dropout:
            drawn = (elites.draw_dropped(len(rows), generator) for _ in range(DROPOUT_PASSES))
            passes = [elites.forward(rows, dropped).outputs for dropped in drawn]
        return means.mean(dim=0), torch.cat(passes).var(dim=0, correction=0)

    def statistics(self) -> dict[str, float]:
        """Return what the last fit came to: ``epochs``, ``holdout_error`` of elites and of each member, calibration."""
        if self.fitted is None:
            return {}
        errors = self.fitted.errors
        numbers = {"epochs": float(self.fitted.epochs), "holdout_error": float(errors[self.elites].mean())}
        return numbers | {f"holdout_error_{j}": float(error) for j, error in enumerate(errors)} | self.calibration

    def state_dict(self) -> dict[str, Any]:
        """Return everything that predictions and the next fit depend on, and the last fit's numbers."""
        if self.networks is None or self.fitted is None:
            return {}
        scales = {"inputs": self._inputs, "targets": self._targets}
        last = {"errors": self.fitted.errors, "best_epochs": self.fitted.best_epochs, "epochs": self.fitted.epochs}
        return {
            "sizes": list(self.networks.sizes),
            "networks": self.networks.state_dict(),
            "scales": {
                n: {"mean": s.mean.numpy(force=True), "std": s.std.numpy(force=True)} for n, s in scales.items()
            },
            "elites": list(self.elites),
            "last": last | {"calibration": dict(self.calibration)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Raises:
            ValueError: It is that of another model.
        """
        self.networks, self.fitted, self.elites, self.calibration = None, None, [], {}
        if not state:
            return
        sizes = tuple(int(width) for width in state["sizes"])
        made = self._networks(sizes, np.random.default_rng(0))
        given = state["networks"]
        fits = len(given) == len(made.tensors) and sizes[1:-1] == self.hiddens
        if not fits or np.shape(given["0"])[0] != self.members:
            raise ValueError(
                f"the state is of a model of {np.shape(given['0'])[0]} members with layers {sizes}; expected a "
                f"{self.kind} one of {self.members} with hidden layers {self.hiddens}"
            )
        made.load_state_dict(given)
        self.networks, self.elites = made, [int(member) for member in state["elites"]]
        scales = [state["scales"][name] for name in ("inputs", "targets")]
        self._inputs, self._targets = (
            Scale(*(torch.tensor(np.asarray(s[k]), device=self.device) for k in ("mean", "std"))) for s in scales
        )
        last = state["last"]
        self.calibration = dict(last["calibration"])
        numbers = np.array(last["errors"], np.float64), np.array(last["best_epochs"], np.int64)
        self.fitted = Fit(*numbers, int(last["epochs"]), torch.zeros(0, dtype=torch.int64))
