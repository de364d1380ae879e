"""The interface of an update, its batch and its result, and functions that several algorithms share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from interreplay.environments.own_modules import is_users_class
from interreplay.errors import PartError
from interreplay.learning.losses import CriticLoss
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.normalization import NormalizedEncoder
from interreplay.transitions import Transitions

MEAN_ERROR = "mean_error"
"""Score of a row: the mean of |δ| over the critics."""
LARGEST_ERROR = "largest_error"
"""Score of a row: the maximum of |δ| over the critics."""
REDUCIBLE_LOSS = "reducible_loss"
"""Score of a row: δ² minus δ'², means over the critics; δ' has the target network's value of (s, a) in place of the
critic's (Sujit et al. 2022, arXiv:2208.10483)."""
TARGET = "target"
"""Target of a row: q_t, which the critics learn, computed with the current networks."""
SCORING = "score"
"""The update scores any rows at any time, by forward passes."""
ACTOR_WEIGHTS = "actor_weights"
"""The update accepts weights of rows for the losses of the actor and the temperature alone."""
SUCCESS_COLUMN = "success"
"""Name of an extra column: whether the environment reported success in its infos."""
CRITIC_LOSS = "critic_loss"
"""The update accepts a loss of the critics that is defined by the rows."""


Randomness = torch.Generator | Tensor
"""A source of randomness, or the standard normal noise that was drawn from it: compiled functions cannot draw."""


def normal(like: Tensor, rng: Randomness) -> Tensor:
    """Draw standard normal noise of the shape, dtype and device of `like`, unless it was drawn before."""
    if isinstance(rng, Tensor):
        return rng
    return torch.randn(like.shape, generator=rng, device=like.device, dtype=like.dtype)


def views(rows: Transitions, encoder: nn.Module) -> tuple[Tensor, Tensor, int]:
    """Return encoded observations and next observations, both ``(n·m, d)``, and the number m of views per row.

    Next observations have no gradient. State augmentation stores several views per row in ``extras["views_obs"]`` and
    ``extras["views_next_obs"]``, ``(n, m, ...)``; these are normalized, if the encoder normalizes, but not encoded.
    """
    with torch.no_grad():
        next_obs, _ = view_tensors(rows, encoder, "next_obs")
    obs, m = view_tensors(rows, encoder, "obs")
    return obs, next_obs, m


def view_tensors(rows: Transitions, encoder: nn.Module, name: str) -> tuple[Tensor, int]:
    """Return encoded ``obs`` or ``next_obs`` ``(n·m, d)`` of n rows, differentiable, and the views m per row."""
    if "views_obs" not in rows.extras:
        return encoder(getattr(rows, name)), 1
    inner = encoder.encoder if isinstance(encoder, NormalizedEncoder) else encoder
    if not isinstance(inner, Flat):
        raise ValueError(f"views are flat observations, and the encoder is {type(inner).__name__}; expected views=1")
    many = rows.extras[f"views_{name}"]
    wide = flat_rows(many.flatten(0, 1)).float()
    if isinstance(encoder, NormalizedEncoder):
        wide = encoder.normalize(wide)
    return wide, many.shape[1]


def count_views(rows: Transitions) -> int:
    """Return the number m of views per row."""
    return rows.extras["views_obs"].shape[1] if "views_obs" in rows.extras else 1


def flat_rows(values: Tensor) -> Tensor:
    """Return values ``(n, d)`` of ``(n, ...)``; single numbers ``(n,)`` have d = 1."""
    return values.reshape(len(values), -1)


def repeat_for_views(values: Tensor, m: int) -> Tensor:
    """Return values ``(n·m, ...)`` of ``(n, ...)``, each row m times in a row."""
    return values if m == 1 else values.repeat_interleave(m, dim=0)


def mean_over_views(values: Tensor, m: int) -> Tensor:
    """Return means ``(..., n)`` of values ``(..., n·m)`` over the m views of each row."""
    return values if m == 1 else values.unflatten(-1, (-1, m)).mean(dim=-1)


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean over the rows of values ``(..., n)`` times weights ``(n,)``; None for equal weights."""
    if weights is None:
        return values.mean(dim=-1)
    return (values * check_weights(weights, values)).mean(dim=-1)


def check_weights(weights: Tensor, values: Tensor) -> Tensor:
    """Return weights ``(n,)`` for values ``(..., n)``; raise a ValueError for weights that would broadcast."""
    if weights.shape != values.shape[-1:]:
        raise ValueError(f"weights have shape {tuple(weights.shape)}; expected {tuple(values.shape[-1:])}")
    return weights


def critic_weights(batch: Batch, values: Tensor) -> Tensor:
    """Return the weights ``(n,)`` of the rows in the critics' loss, of the type of `values` ``(..., n)``."""
    weights = check_weights(batch.weights, values)
    if batch.row_weights is not None:
        weights = weights * check_weights(batch.row_weights, values)
    return weights.to(values.dtype)


def trainable(*modules: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of modules that require gradients: encoders and layers of a user can have frozen ones."""
    found = []
    for module in modules:
        for parameter in module.parameters():
            if parameter.requires_grad:
                found.append(parameter)
    return found


def clip_gradients(parameters: Sequence[Tensor], most: float | None, by: str = "global_norm") -> None:
    """Bound the gradients of one optimizer's parameters, in place.

    Args:
        parameters: Parameters with gradients; three dimensions mean several networks ``(m, in, out)``.
        most: The bound; None disables clipping.
        by: "global_norm" bounds the norm of all gradients together, "norm" the norm of each layer of each network,
            "value" each number.
    """
    if most is None:
        return
    if by == "global_norm":
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        factor = (most / (norm + 1e-6)).clamp_(max=1.0)
        if factor.device.type != "cpu" or factor < 1.0:  # reading it from a GPU would wait
            torch._foreach_mul_(gradients, factor)
    elif by == "value":
        nn.utils.clip_grad_value_(parameters, most)
    else:
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                continue
            norms = gradient.norm()
            if gradient.ndim == 3:
                norms = torch.linalg.vector_norm(gradient, dim=(1, 2), keepdim=True)
            gradient.mul_((most / (norms + 1e-6)).clamp(max=1.0))


@dataclass(frozen=True)
class Batch:
    """A batch of n rows, as updates read it; `interreplay.Sample` has the same attributes.

    Attributes:
        transitions: The rows, with ``discounts``.
        weights: Importance weights ``(n,)`` for the critics' loss.
        row_weights: Weights ``(n,)`` with mean 1 for every loss; None for equal weights.
        actor_weights: Further weights ``(n,)`` for the losses of the actor and the temperature; None for equal weights.
        critic_loss: The critics' loss for these rows; None for the algorithm's own loss.
        targets: Targets q_t ``(n,)`` under the current networks if they have been computed, else None.
    """

    transitions: Transitions
    weights: Tensor
    row_weights: Tensor | None = None
    actor_weights: Tensor | None = None
    critic_loss: CriticLoss | None = None
    targets: Tensor | None = None

    def replace(self, **columns: Any) -> Batch:
        """Return the batch with some columns replaced."""
        return replace(self, **columns)

    def map(self, fn: Callable[[Tensor], Tensor]) -> Batch:
        """Return a batch with `fn` applied to every column."""
        columns: dict[str, Any] = {}
        for name in ("weights", "row_weights", "actor_weights", "targets"):
            column = getattr(self, name)
            columns[name] = None if column is None else fn(column)
        return Batch(self.transitions.map(fn), critic_loss=self.critic_loss, **columns)

    @staticmethod
    def stack(batches: Sequence[Batch]) -> Batch:
        """Return the batches ``(n, ...)`` of R runs, all with the same columns, as one of ``(R, n, ...)``."""
        columns = zip(*map(list_columns, batches), strict=True)
        return replace_columns(batches[0], list(map(torch.stack, columns)))


def make_batch(sample: Any) -> Batch:
    """Return the columns that an update reads of a sample without a loss of its own."""
    return Batch(sample.transitions, sample.weights, sample.row_weights, sample.actor_weights, targets=sample.targets)


def list_columns(batch: Any) -> list[Tensor]:
    """Return the columns of a batch in the order in which `batch.map` visits them."""
    found: list[Tensor] = []

    def collect(column: Tensor) -> Tensor:
        found.append(column)
        return column

    batch.map(collect)
    return found


def replace_columns(batch: Any, columns: Sequence[Tensor]) -> Any:
    """Return a batch of the same form with other columns, in the order of `list_columns`."""
    remaining = iter(columns)
    return batch.map(lambda column: next(remaining))


def actor_row_weights(batch: Batch) -> Tensor | None:
    """Return the weights ``(n,)`` of the rows for the losses of actor and temperature; None for equal weights."""
    if batch.actor_weights is None or batch.row_weights is None:
        return batch.row_weights if batch.actor_weights is None else batch.actor_weights
    return batch.actor_weights * batch.row_weights


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The TD errors and metrics of an update.

    Attributes:
        errors: ``(n,)``, detached; their magnitudes serve as priorities. The mean over the critics' TD errors.
        metrics: The numbers that `Update.metrics` names, as one detached tensor.
        scores: Detached columns ``(n,)`` by name, one for each name in `Update.scores_wanted`.
    """

    errors: Tensor
    metrics: Tensor
    scores: Mapping[str, Tensor] = field(default_factory=dict)


class Update(ABC):
    """One gradient update of an algorithm.

    Attributes:
        optimizers: Optimizers by name; checkpoints contain their state.
        metrics: Names of the numbers that `update` reports, in order.
        offers: Features that replay methods can use, among the names at the top of this module.
        scores_wanted: Names of the scores that every update computes; set by the caller.
        result_class: Class of the result of `learn`.
    """

    optimizers: dict[str, torch.optim.Optimizer]
    metrics: tuple[str, ...]
    offers: frozenset[str] = frozenset()
    scores_wanted: frozenset[str] = frozenset()
    result_class: ClassVar[type[Any]] = UpdateResult

    def update(self, batch: Any, rng: Any = None) -> Any:
        """Learn from a batch.

        Args:
            batch: A `Batch`, or unrolls for algorithms that learn from unrolls.
            rng: Source of the policy's noise, a generator on the device of the rows; None if nothing is drawn.

        Returns:
            An `UpdateResult`, or the result for unrolls.

        Raises:
            PartError: A user's `learn` returned another class or other metrics.
        """
        result = self.learn(batch, rng)
        if is_users_class(type(self)):
            self._check_result(result)
        self.finish(rng)
        return result

    def _check_result(self, result: Any) -> None:
        name = type(self).__name__
        if not isinstance(result, self.result_class):
            expected = self.result_class.__name__
            raise PartError(f"learn of {name} returned a {type(result).__name__}; expected an object of {expected}")
        shape = (len(self.metrics),)
        expected = f"expected a tensor of shape {shape}: {', '.join(self.metrics)}"
        if not isinstance(result.metrics, Tensor):
            raise PartError(f"learn of {name} returned metrics of type {type(result.metrics).__name__}; {expected}")
        if result.metrics.shape != shape:
            raise PartError(f"learn of {name} returned metrics of shape {tuple(result.metrics.shape)}; {expected}")

    @abstractmethod
    def learn(self, batch: Any, rng: Any) -> Any:
        """Compute an update of tensors; arguments and result as in `update`.

        The operations depend only on the form of the batch and on `phase`, so that a CUDA graph can repeat them.
        Counting in Python belongs in `finish`.
        """

    def phase(self) -> Hashable:
        """Return a key of the next update's operations, which also depend on the form of its batch."""
        return None

    def finish(self, rng: Any) -> None:  # noqa: B027 - many updates count nothing
        """Count an update, and perform operations that are due after it, such as resets.

        Args:
            rng: As in `update`.
        """

    def score(self, rows: Transitions, names: Collection[str], rng: torch.Generator) -> dict[str, Tensor]:
        """Return scores ``(n,)`` of rows by name, computed by forward passes alone.

        Args:
            rows: n rows with ``discounts``.
            names: Names of the scores, some of `offers`.
            rng: Source of the policy's noise, on the device of the rows.
        """
        raise NotImplementedError(f"{type(self).__name__} does not score rows")

    def after_updates(self, env_steps: int, rng: torch.Generator) -> None:  # noqa: B027 - many updates do nothing
        """Make changes that depend on the number of env steps, after all updates that are due at this step.

        Args:
            env_steps: Env steps of the whole run.
            rng: Source of randomness, on the device of the rows.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without networks, optimizers and `rng`."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - many updates have no state
        """Restore a state."""
