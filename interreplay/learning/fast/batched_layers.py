"""Several fully connected networks of one shape: their forward pass, and a backward pass written out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from interreplay.learning.dropout import Dropped
from interreplay.learning.fast.between_layers import BetweenLayers
from interreplay.learning.fast.products import add_rows, affine, through, weight_gradient

Networks = Sequence[int] | Tensor
"""Numbers of some of the networks; ``(m,)`` on another device, where to read them would be to wait for it."""


class Member(NamedTuple):
    """Views of the parameters of every layer of one network ``(in, out)``, ``(1, out)``, or of all ``(m, ...)``.

    Attributes:
        weights: Of every layer.
        biases: Of every layer.
        norms: γ and β ``(out,)`` of every hidden layer, or ``(m, 1, out)``; none without layer normalization.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    norms: Sequence[tuple[Tensor, Tensor]] = ()


class LayerViews:
    """Views of the stacked parameters of m fully connected networks, grouped as they are multiplied.

    A GPU takes all networks in one product per layer. A processor takes one network after the other, whose
    activations then stay in its cache.

    Args:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        scales: ``(m, 1, out)`` of every hidden layer, where layers are normalized.
        shifts: The same.

    Attributes:
        members: One network after the other, or all at once.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        scales: Sequence[Tensor] = (),
        shifts: Sequence[Tensor] = (),
    ):
        self.parts = tuple([values.detach() for values in part] for part in (weights, biases, scales, shifts))
        self.weights, self.biases, self.scales, self.shifts = self.parts
        self.count, self.depth = len(weights[0]), len(weights)
        self.at_once = at_once(weights[0].device)
        split = [[self.split(values) for values in part] for part in self.parts]
        self.members = []
        for i in range(1 if self.at_once else self.count):
            norms = [(scale[i], shift[i]) for scale, shift in zip(*split[2:], strict=True)]
            if not self.at_once:  # ``(out,)``, as kernels want them
                norms = [(scale[0], shift[0]) for scale, shift in norms]
            own_weights, own_biases = ([values[i] for values in part] for part in split[:2])
            self.members.append(Member(own_weights, own_biases, norms))

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """Return values ``(m, ...)`` of each member."""
        return (values,) if self.at_once else values.unbind(0)

    def are_of(self, weights: Sequence[Tensor]) -> bool:
        """Return whether these are views of `weights`: not so when a module was moved or copied."""
        return all(a.data_ptr() == b.data_ptr() for a, b in zip(self.weights, weights, strict=True))

    def some(self, networks: Networks) -> LayerViews:
        """Return views of some of the networks; of a GPU's copies, unless they are the first ones."""
        found = copy.copy(self)
        found.count = len(networks)
        if self.at_once:
            first = not isinstance(networks, Tensor) and list(networks) == list(range(len(networks)))
            index = slice(0, len(networks)) if first else networks
            whole = self.members[0]
            norms = [(scale[index], shift[index]) for scale, shift in whole.norms]
            found.members = [Member([w[index] for w in whole.weights], [b[index] for b in whole.biases], norms)]
        else:
            found.members = [self.members[network] for network in networks]
        return found

    def empty_like(self) -> LayerViews:
        """Return as many numbers of any value, for gradients."""
        return LayerViews(*([torch.empty_like(values) for values in part] for part in self.parts))


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "relu": (Tensor.relu_, lambda gradient, outputs: torch.ops.aten.threshold_backward(gradient, outputs, 0)),
    "tanh": (Tensor.tanh_, torch.ops.aten.tanh_backward),
}
"""Functions between layers by name: in place, and the gradient of their inputs from that of their outputs and these."""


class ForwardPass:
    """One forward pass of m networks with ReLU or tanh between layers, kept for the backward pass.

    The backward pass of a processor leaves out rows that get no gradient, as do those of the critic that is not the
    minimum. Autograd's own backward of `torch.baddbmm` would hand out transposed gradients, which ReLU's backward
    walks through against the grain, and multiply matrices with one column as if they had many.
    `docs/performance.md` has the figures.

    Args:
        rows: What all networks see, ``(n, in)``.
        views: Of the parameters of m networks.
        dtype: In which the matrices between hidden layers are multiplied, and their gradients; the first and the
            last layer, sums and activations keep the type of the rows. None for that type everywhere.
        activation: Name of the function between layers, one of `ACTIVATIONS`.
        dropped: Hidden units that are left out, or None.
        keep: Probability with which others were kept.

    Attributes:
        outputs: ``(m, n, out)``.
    """

    def __init__(
        self,
        rows: Tensor,
        views: LayerViews,
        dtype: torch.dtype | None = None,
        activation: str = "relu",
        dropped: Dropped | None = None,
        keep: float = 1.0,
    ):
        self.rows, self.views = rows, views
        activate, self._through_activation = ACTIVATIONS[activation]
        rows = rows.detach()
        inner = views.depth - 2
        self.dtypes = [None, *[dtype] * inner, None] if inner > 0 else [None] * views.depth
        self.inputs: list[list[Tensor]] = []
        self.between = between_layers(views, rows, dropped, keep)
        outputs = []
        for number, member in enumerate(views.members):
            weights, biases = member.weights, member.biases
            inputs = [rows.expand(views.count, *rows.shape) if views.at_once else rows]
            for i in range(views.depth - 1):
                values = affine(inputs[i], weights[i], biases[i], self.dtypes[i])
                if self.between:
                    values = self.between[number][i].forward(values)
                inputs.append(activate(values))
            outputs.append(affine(inputs[-1], weights[-1], biases[-1], None))
            self.inputs.append(inputs)
        self.outputs = outputs[0].view(views.count, len(rows), -1) if len(outputs) == 1 else torch.stack(outputs)

    def backward(
        self, gradients: Tensor, into: LayerViews | None = None, columns: slice | None = None
    ) -> Tensor | None:
        """Propagate gradients ``(m, n, out)`` of a loss by the outputs.

        Args:
            gradients: Of the outputs.
            into: Where the gradients of the parameters are put; None where they are not wanted.
            columns: Those of the rows of which gradients are wanted, k of them; None for none.

        Returns:
            Gradients of these columns ``(n, k)``, or None.
        """
        of_rows = None if columns is None else torch.zeros_like(self.rows.detach()[:, columns])
        for number, gradient in enumerate(self.views.split(gradients)):
            weights, inputs, between = self.views.members[number].weights, self.inputs[number], self._between(number)
            found = None if into is None else into.members[number]
            which = self._rows_with(gradient, between) if found is None else None
            if which is not None:
                gradient, inputs = gradient[which], [values[which] for values in inputs]
                between = [each.rows(which) for each in between]
            for i in reversed(range(len(weights))):
                if found is not None:
                    weight_gradient(inputs[i], gradient, self.dtypes[i], out=found.weights[i])
                    torch.sum(gradient, dim=-2, keepdim=True, out=found.biases[i])
                if i:
                    back = through(gradient, weights[i], self.dtypes[i])
                    gradient = self._through_activation(back, inputs[i])
                if i and between:
                    gradient = between[i - 1].backward(gradient, found.norms[i - 1] if found and found.norms else None)
            if of_rows is not None:
                add_rows(of_rows, which, through(gradient, weights[0][..., columns, :], None))
        return of_rows

    def _between(self, number: int) -> list[BetweenLayers]:
        return self.between[number] if self.between else []

    def _rows_with(self, gradient: Tensor, between: list[BetweenLayers]) -> Tensor | None:
        """Return the rows of one network that get a gradient; None where all of them are to be taken."""
        if gradient.shape[-1] != 1 or self.views.at_once or any(each.drops for each in between):
            return None
        which = gradient[:, 0].nonzero().squeeze(1)
        return None if which.shape == gradient.shape[:1] else which


class BatchedLayers(torch.autograd.Function):
    """A `ForwardPass` as a function of autograd, for losses that are not differentiated by hand."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, dtype: torch.dtype | None, activation: str, *parameters: Tensor) -> Tensor:
        """Return outputs ``(m, n, out)`` for rows ``(n, in)``, the weights and then the biases of every layer."""
        middle = len(parameters) // 2
        ctx.save_for_backward(*parameters)  # so that autograd notices when they are changed before the backward pass
        ctx.done = ForwardPass(rows, LayerViews(parameters[:middle], parameters[middle:]), dtype, activation)
        return ctx.done.outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return gradients of the rows and of all parameters, those that are needed."""
        into = ctx.done.views.empty_like() if ctx.needs_input_grad[3] else None
        of_rows = ctx.done.backward(gradients, into, slice(None) if ctx.needs_input_grad[0] else None)
        of_parameters = [None] * len(ctx.saved_tensors) if into is None else [*into.weights, *into.biases]
        return of_rows, None, None, *of_parameters


def between_layers(views: LayerViews, rows: Tensor, dropped: Dropped | None, keep: float) -> list[list[BetweenLayers]]:
    """Return what stands behind each hidden layer of each member; [] where nothing does.

    Args:
        views: Of the parameters.
        rows: What the networks see, ``(n, in)``.
        dropped: Hidden units that are left out, or None.
        keep: Probability with which others were kept.
    """
    if dropped is None and not views.scales:
        return []
    if dropped is not None and views.at_once:
        sizes = [len(rows) * weights.shape[-1] for weights in views.weights]
        dropped = [[joined(layer, size) for layer, size in zip(zip(*dropped, strict=True), sizes, strict=False)]]
    nothing: list[None] = [None] * (views.depth - 1)
    found = []
    for number, member in enumerate(views.members):
        left_out = nothing if dropped is None else dropped[number]
        pairs = zip(member.norms or nothing, left_out, strict=True)
        found.append([BetweenLayers(norm, out, keep) for norm, out in pairs])
    return found


def joined(dropped: Sequence[Tensor], size: int) -> Tensor:
    """Return the units that are left out of one layer of m networks, each of `size` numbers ``(n, width)``."""
    if dropped[0].dtype is torch.bool:
        return torch.stack(list(dropped))
    return torch.cat([own + j * size for j, own in enumerate(dropped)])


def at_once(device: torch.device) -> bool:
    """Return whether all networks are computed in one product per layer."""
    return device.type != "cpu"
