"""Dynamics: an ensemble that predicts next states and rewards, and its uncertainty."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import accepted_names, check_number
from interreplay.experience.learned_models.ensembles import Fit, FitSettings, Networks, fit, log_variances, split
from interreplay.learning.networks.layers import MATRIX_DTYPES, get_matrix_dtype


class Scale:
    """Mean and standard deviation of columns, for standardizing them.

    Args:
        mean: ``(d,)``.
        std: ``(d,)``; 0 for constant columns, which are only centered, and which `undo` sets to the mean.
    """

    def __init__(self, mean: Tensor, std: Tensor):
        self.mean = mean
        self.std = std
        self._divisor = torch.where(std > 0, std, 1.0)

    @classmethod
    def fit(cls, rows: Tensor) -> Scale:
        """Return the scale of rows ``(n, d)``."""
        exact = rows.double()
        mean = exact.mean(dim=0)
        std = exact.std(dim=0, correction=0)
        varies = std > 1e-8 + 1e-6 * mean.abs()
        return cls(mean.to(rows.dtype), torch.where(varies, std, 0.0).to(rows.dtype))

    def apply(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) / self._divisor

    def undo(self, rows: Tensor) -> Tensor:
        return rows * self.std + self.mean


def calibration(means: Tensor, variances: Tensor, targets: Tensor) -> dict[str, float]:
    """Compare predicted variances ``(n, d)`` with the errors of predicted means ``(n, d)``.

    Returns:
        ``error_over_spread``: square root of mean squared error over mean variance, 1 for a calibrated model, more for
        an overconfident one; ``spread_correlation``: rank correlation, over rows, of variance and squared error, 0
        if one of them is constant.
    """
    from scipy.stats import spearmanr  # takes long to import, and other algorithms do not need it

    squared = (means - targets).square()
    ratio = float((squared.mean() / variances.mean().clamp(min=1e-30)).sqrt())
    errors = squared.mean(dim=1).numpy(force=True)
    spreads = variances.mean(dim=1).numpy(force=True)
    correlation = 0.0
    if np.ptp(errors) and np.ptp(spreads):
        correlation = float(spearmanr(errors, spreads).statistic)
    return {"error_over_spread": ratio, "spread_correlation": correlation}


STOCHASTIC = "stochastic"
DETERMINISTIC = "deterministic"
PATIENCE = {STOCHASTIC: 5, DETERMINISTIC: 10}
DROPOUT = {STOCHASTIC: 0.0, DETERMINISTIC: 0.05}
DROPOUT_PASSES = 10
"""Forward passes with dropout from which the variance of a deterministic model is computed."""
ROWS_AT_ONCE = 2048
"""Rows per forward pass of one member, few enough for its activations to stay in the cache."""
CHECKED_ROWS = 4096
"""Maximum number of held-out rows for the calibration."""


class Prediction(NamedTuple):
    """Predicted outcomes of steps.

    Attributes:
        states: Next states ``(n, d)``.
        rewards: ``(n,)``, or None if the model does not predict them.
    """

    states: Tensor
    rewards: Tensor | None


class Dynamics:
    """m networks that predict [r; Δs] from [s; a], standardized (Janner et al. 2019, arXiv:1906.08253, appendix C).

    A stochastic model predicts a Gaussian. A deterministic model predicts the mean only and uses dropout during
    learning. Each row of a step is predicted by a random elite, one of the members with the smallest holdout errors.

    Args:
        kind: "stochastic" or "deterministic".
        members: Number of networks m.
        elites: Number of members that predict.
        hiddens: Widths of the hidden layers.
        dropout: Dropout of all hidden layers but the first; None for the default of the kind, 0 or .05.
        settings: Settings of fits.
        device: Device of the networks.
        matrix_dtype: Type of the products between hidden layers, "float32" or "bfloat16".

    Attributes:
        elites: Numbers of the elites, the best first; empty before the first fit.
        fitted: Result of the last fit; None before the first.
        calibration: Calibration on held-out rows after the last fit, by name.

    Raises:
        ValueError: The kind is unknown, or an argument is out of range.
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
        if dropout is None:
            dropout = DROPOUT[kind]
        check_number("dropout", dropout, 0, 1, below_high=True)
        listed = isinstance(hiddens, tuple | list) and len(hiddens) > 0
        if not listed or not all(isinstance(width, int) and width >= 1 for width in hiddens):
            raise ValueError(f"model_hiddens is {hiddens!r}; expected widths of layers, such as (200, 200, 200, 200)")
        self.kind = kind
        self.members = members
        self.count = elites
        self.hiddens = tuple(hiddens)
        self.dropout = dropout
        self.settings = settings or FitSettings(patience=PATIENCE[kind])
        self.device = torch.device(device)
        self.matrix_dtype = get_matrix_dtype(matrix_dtype)
        self.networks: Networks | None = None
        self.elites: list[int] = []
        self.fitted: Fit | None = None
        self.calibration: dict[str, float] = {}
        self._inputs = Scale(torch.zeros(0), torch.ones(0))
        self._targets = Scale(torch.zeros(0), torch.ones(0))

    def move(self, device: torch.device) -> None:
        """Move the model to another device."""
        if device == self.device:
            return
        state = self.state_dict()
        self.device = device
        self.load_state_dict(state)

    def fit(
        self, states: Tensor, actions: Tensor, next_states: Tensor, rewards: Tensor | None, rng: np.random.Generator
    ) -> Fit:
        """Fit all members, starting from the weights of the last fit if the widths of the rows are the same.

        Args:
            states: ``(n, d)``.
            actions: ``(n, a)``.
            next_states: ``(n, d)``.
            rewards: ``(n,)``; None for a model that does not predict rewards.
            rng: Source of randomness.
        """
        inputs = torch.cat([states, actions], dim=1).to(self.device)
        targets = next_states - states
        if rewards is not None:
            targets = torch.cat([rewards.unsqueeze(1), targets], dim=1)
        targets = targets.to(self.device)
        outputs = targets.shape[1] * (2 if self.kind == STOCHASTIC else 1)
        sizes = (inputs.shape[1], *self.hiddens, outputs)
        if self.networks is None or self.networks.sizes != sizes:
            self.networks = self._new_networks(sizes, rng)
        trained, held_out = (rows.to(self.device) for rows in split(len(inputs), self.settings.holdout, rng))
        self._inputs = Scale.fit(inputs[trained])
        self._targets = Scale.fit(targets[trained])
        inputs = self._inputs.apply(inputs)
        targets = self._targets.apply(targets)
        self.fitted = fit(self.networks, inputs, targets, held_out, self.settings, rng)
        self.elites = np.argsort(self.fitted.errors, kind="stable")[: self.count].tolist()
        checked = held_out[:CHECKED_ROWS]
        means, variances = self.means_and_variances(inputs[checked], rng)
        self.calibration = calibration(means, variances, targets[checked])
        return self.fitted

    def _new_networks(self, sizes: tuple[int, ...], rng: np.random.Generator) -> Networks:
        bounds = sizes[-1] // 2 if self.kind == STOCHASTIC else 0
        return Networks(
            self.members,
            sizes,
            rng,
            bounds=bounds,
            dropout=self.dropout,
            device=self.device,
            matrix_dtype=self.matrix_dtype,
        )

    @torch.no_grad()
    def step(self, states: Tensor, actions: Tensor, rng: np.random.Generator) -> Prediction:
        """Predict the outcomes of actions ``(n, a)`` in states ``(n, d)``, each row by a random elite."""
        assert self.networks is not None
        generator = torch.Generator(device=self.device).manual_seed(int(rng.integers(2**62)))
        rows = self._inputs.apply(torch.cat([states, actions], dim=1).to(self.device))
        drawn = torch.randint(len(self.elites), (len(rows),), generator=generator, device=self.device)
        width = len(self._targets.mean)
        predicted = rows.new_empty((len(rows), width))
        noise = None
        if self.networks.bounds:
            noise = torch.randn(predicted.shape, generator=generator, device=self.device)
        for number, member in enumerate(self.elites):
            for indices in torch.nonzero(drawn == number).flatten().split(ROWS_AT_ONCE):
                outputs = self.networks.forward_member(member, rows[indices])
                if noise is not None:
                    highest, lowest = (bound[member] for bound in self.networks.bounds)
                    log_variance = log_variances(outputs[:, width:], highest, lowest)
                    outputs = outputs[:, :width] + torch.exp(0.5 * log_variance) * noise[indices]
                predicted[indices] = outputs
        predicted = self._targets.undo(predicted).to(states.device)
        changes = predicted[:, width - states.shape[1] :]
        rewards = predicted[:, 0] if width > states.shape[1] else None
        return Prediction(states + changes, rewards)

    @torch.no_grad()
    def means_and_variances(self, rows: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the means and variances ``(n, d)`` that the elites predict for standardized rows ``(n, in)``.

        For a stochastic model, the mean of the members' variances plus the variance between their means. For a
        deterministic model, the variance over forward passes with dropout.
        """
        assert self.networks is not None
        elites = self.networks.copy_members(torch.tensor(self.elites, device=self.device))
        outputs = elites.forward(rows)
        width = len(self._targets.mean)
        means = outputs[..., :width]
        if elites.bounds:
            variances = torch.exp(log_variances(outputs[..., width:], *elites.bounds)).mean(dim=0)
            return means.mean(dim=0), variances + means.var(dim=0, correction=0)
        if not elites.dropout:
            return means.mean(dim=0), means.var(dim=0, correction=0)
        generator = torch.Generator(device=self.device).manual_seed(int(rng.integers(2**62)))
        passes = []
        for _ in range(DROPOUT_PASSES):
            passes.append(elites.forward(rows, elites.draw_dropped(len(rows), generator)))
        return means.mean(dim=0), torch.cat(passes).var(dim=0, correction=0)

    def statistics(self) -> dict[str, float]:
        """Return epochs, holdout errors of the elites and of each member, and calibration of the last fit."""
        if self.fitted is None:
            return {}
        errors = self.fitted.errors
        numbers = {"epochs": float(self.fitted.epochs), "holdout_error": float(errors[self.elites].mean())}
        numbers |= {f"holdout_error_{j}": float(error) for j, error in enumerate(errors)}
        return numbers | self.calibration

    def state_dict(self) -> dict[str, Any]:
        """Return everything that predictions, statistics and the next fit depend on."""
        if self.networks is None or self.fitted is None:
            return {}
        scales = {}
        for name, scale in (("inputs", self._inputs), ("targets", self._targets)):
            scales[name] = {"mean": scale.mean.numpy(force=True), "std": scale.std.numpy(force=True)}
        return {
            "sizes": list(self.networks.sizes),
            "networks": self.networks.state_dict(),
            "scales": scales,
            "elites": list(self.elites),
            "last": {
                "errors": self.fitted.errors,
                "epochs": self.fitted.epochs,
                "calibration": dict(self.calibration),
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state.

        Raises:
            ValueError: The state belongs to another model.
        """
        self.networks = None
        self.fitted = None
        self.elites = []
        self.calibration = {}
        if not state:
            return
        sizes = tuple(map(int, state["sizes"]))
        networks = self._new_networks(sizes, np.random.default_rng(0))
        tensors = state["networks"]
        members = np.shape(tensors["0"])[0]
        if len(tensors) != len(networks.tensors) or sizes[1:-1] != self.hiddens or members != self.members:
            raise ValueError(
                f"the state belongs to a model of {members} members with layers {sizes}; expected a {self.kind} model "
                f"of {self.members} members with hidden layers {self.hiddens}"
            )
        networks.load_state_dict(tensors)
        self.networks = networks
        self.elites = list(map(int, state["elites"]))
        self._inputs = self._loaded_scale(state["scales"]["inputs"])
        self._targets = self._loaded_scale(state["scales"]["targets"])
        last = state["last"]
        self.calibration = dict(last["calibration"])
        self.fitted = Fit(np.array(last["errors"], np.float64), epochs=int(last["epochs"]))

    def _loaded_scale(self, state: dict[str, Any]) -> Scale:
        mean = torch.tensor(np.asarray(state["mean"]), device=self.device)
        std = torch.tensor(np.asarray(state["std"]), device=self.device)
        return Scale(mean, std)
