"""Stacked fully connected networks of one shape as one function of autograd, with a hand-written backward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from interreplay.learning.networks.between_layers import BetweenLayers, Dropped
from interreplay.learning.networks.products import affine, bias_gradient, input_gradient, weight_gradient

Networks = Sequence[int] | Tensor
"""Numbers of some of the networks; a tensor ``(k,)`` on a GPU, where reading them would wait for the device."""


class Member(NamedTuple):
    """Views of the parameters of one network, or of all networks, per layer.

    Attributes:
        weights: ``(in, out)`` of every layer, or ``(m, in, out)``.
        biases: ``(1, out)`` of every layer, or ``(m, 1, out)``.
        norms: γ and β ``(out,)`` of every hidden layer, or ``(m, 1, out)``; empty without layer normalization.
        transposed: The weights, transposed.
        column: Weight ``(in,)``, bias ``(1,)`` of a last layer with one output; None for others and for all networks.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    norms: Sequence[tuple[Tensor, Tensor]]
    transposed: Sequence[Tensor]
    column: tuple[Tensor, Tensor] | None

    @classmethod
    def of(
        cls, weights: Sequence[Tensor], biases: Sequence[Tensor], norms: Sequence[tuple[Tensor, Tensor]] = ()
    ) -> Member:
        """Return a member with the views that passes need."""
        last = weights[-1]
        column = (last[:, 0], biases[-1][0]) if last.ndim == 2 and last.shape[1] == 1 else None
        return cls(weights, biases, norms, [weight.mT for weight in weights], column)


class LayerViews:
    """Views of the stacked parameters of m fully connected networks, grouped as they are multiplied.

    A GPU computes all networks in one product per layer. A processor computes one network after the other, so that
    its activations stay in the cache.

    Args:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        scales: ``(m, 1, out)`` of every hidden layer with normalization.
        shifts: ``(m, 1, out)`` of every hidden layer with normalization.

    Attributes:
        parts: Weights, biases, scales and shifts, detached.
        tensors: All of them in this order.
        members: One network after the other, or all networks at once.
        count: Number of networks m.
        depth: Number of layers.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        scales: Sequence[Tensor] = (),
        shifts: Sequence[Tensor] = (),
    ):
        self.parts = tuple([values.detach() for values in part] for part in (weights, biases, scales, shifts))
        self.tensors = [values for part in self.parts for values in part]
        self.count = len(weights[0])
        self.depth = len(weights)
        self.at_once = at_once(weights[0].device)
        split = [[self.split(values) for values in part] for part in self.parts]
        self.members = []
        for i in range(1 if self.at_once else self.count):
            norms = []
            for scale, shift in zip(split[2], split[3], strict=True):
                # The kernel for one network takes shape ``(out,)``.
                norms.append((scale[i], shift[i]) if self.at_once else (scale[i][0], shift[i][0]))
            own_weights = [values[i] for values in split[0]]
            own_biases = [values[i] for values in split[1]]
            self.members.append(Member.of(own_weights, own_biases, norms))

    def version(self) -> int:
        """Return how many changes in place the parameters have seen."""
        return sum(values._version for values in self.tensors)

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """Return values ``(m, ...)`` of each member."""
        return (values,) if self.at_once else values.unbind(0)

    def are_of(self, weights: Sequence[Tensor]) -> bool:
        """Return whether these are views of `weights`; False after the module was moved or copied."""
        return all(a.data_ptr() == b.data_ptr() for a, b in zip(self.parts[0], weights, strict=True))

    def some(self, networks: Networks) -> LayerViews:
        """Return views of some networks; on a GPU copies, unless they are the first networks."""
        found = copy.copy(self)
        found.count = len(networks)
        if not self.at_once:
            found.members = [self.members[network] for network in networks]
            return found
        first = not isinstance(networks, Tensor) and list(networks) == list(range(len(networks)))
        index = slice(0, len(networks)) if first else networks
        whole = self.members[0]
        norms = [(scale[index], shift[index]) for scale, shift in whole.norms]
        found.members = [Member.of([w[index] for w in whole.weights], [b[index] for b in whole.biases], norms)]
        return found

    def empty_like(self) -> LayerViews:
        """Return uninitialized tensors for the gradients of the parameters of all `count` networks."""
        made = []
        for part in self.parts:
            made.append([values.new_empty((self.count, *values.shape[1:])) for values in part])
        return LayerViews(*made)


class Activation(NamedTuple):
    """A function between layers.

    Attributes:
        forward: Applies it in place.
        backward: Turns the gradient of its outputs into the gradient of its inputs, in place; also takes the outputs.
    """

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


def _relu_backward(gradient: Tensor, outputs: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward.grad_input(gradient, outputs, 0, grad_input=gradient)


def _tanh_backward(gradient: Tensor, outputs: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward.grad_input(gradient, outputs, grad_input=gradient)


ACTIVATIONS = {
    "relu": Activation(Tensor.relu_, _relu_backward),
    "tanh": Activation(Tensor.tanh_, _tanh_backward),
}
"""Functions between layers by name."""


class PassSettings(NamedTuple):
    """How m networks run a forward pass.

    Attributes:
        dtype: Type of the products between hidden layers and of their gradients. The first and the last layer, sums
            and activations keep the type of the rows. None for that type everywhere.
        activation: Name of the function between layers, a key of `ACTIVATIONS`.
        keep: Probability with which hidden units are kept.
        dropped: The dropped hidden units of each network that runs, or None.
        networks: Numbers of the networks that run; None for all.
        frozen: Whether the parameters are constants: only the rows receive gradients.
    """

    dtype: torch.dtype | None = None
    activation: str = "relu"
    keep: float = 1.0
    dropped: Dropped | None = None
    networks: Networks | None = None
    frozen: bool = False


class ForwardPass:
    """One forward pass of m networks, kept for the backward pass.

    On the processor, the backward pass skips rows without a gradient, for example the rows for which a critic is not
    the minimum. Autograd's backward pass of `torch.baddbmm` would return transposed gradients, which are slow to
    traverse for the backward pass of ReLU, and would multiply matrices with one column as if they had many.
    `docs/performance.md` has measurements.

    Args:
        rows: Inputs of all networks, ``(n, in)``.
        views: Views of the parameters of m networks.
        settings: Products, activation and dropout.
    """

    def __init__(self, rows: Tensor, views: LayerViews, settings: PassSettings):
        self.rows = rows
        self.views = views
        self._activation = ACTIVATIONS[settings.activation]
        hidden = views.depth - 1
        self.dtypes = [settings.dtype if 0 < i < hidden else None for i in range(views.depth)]
        self.inputs: list[list[Tensor]] = []
        self.between = between_layers(views, rows, settings.dropped, settings.keep)

    def forward(self) -> Tensor:
        """Return the outputs ``(m, n, out)``; they are not kept, as autograd's references to them would be circular."""
        rows = self.rows
        views = self.views
        hidden = views.depth - 1
        outputs = []
        for number, member in enumerate(views.members):
            values = rows.expand(views.count, *rows.shape) if views.at_once else rows
            inputs = [values]
            for i in range(hidden):
                values = affine(values, member.weights[i], member.biases[i], self.dtypes[i])
                if self.between:
                    values = self.between[number][i].forward(values)
                values = self._activation.forward(values)
                inputs.append(values)
            if member.column is None:
                outputs.append(affine(values, member.weights[hidden], member.biases[hidden], None))
            else:
                outputs.append(torch.addmv(member.column[1], values, member.column[0]).unsqueeze(1))
            self.inputs.append(inputs)
        if views.at_once:
            return outputs[0]
        return outputs[0].unsqueeze(0) if len(outputs) == 1 else torch.stack(outputs)

    def backward(
        self, gradients: Tensor, into: LayerViews | None = None, columns: slice | None = None
    ) -> Tensor | None:
        """Propagate gradients ``(m, n, out)`` of a loss with respect to the outputs.

        Args:
            gradients: Gradients of the outputs.
            into: Receives the gradients of the parameters; None if these are not required.
            columns: The k columns of the rows whose gradients are required; None for no columns.

        Returns:
            Gradients of these columns ``(n, k)``, or None.
        """
        of_rows = None if columns is None else torch.zeros_like(self.rows[:, columns])
        ones = self.rows.new_ones(1, len(self.rows))
        for number, gradient in enumerate(self.views.split(gradients)):
            transposed = self.views.members[number].transposed
            inputs = self.inputs[number]
            between = self.between[number] if self.between else []
            found = None if into is None else into.members[number]
            which = self._rows_with_gradient(gradient, between) if found is None else None
            if which is not None:
                gradient = gradient.index_select(0, which)
                inputs = [inputs[0], *[values.index_select(0, which) for values in inputs[1:]]]
                between = [each.rows(which) for each in between]
            for i in reversed(range(self.views.depth)):
                if found is not None:
                    weight_gradient(inputs[i], gradient, self.dtypes[i], out=found.weights[i])
                    bias_gradient(gradient, ones, out=found.biases[i])
                if i == 0:
                    break
                gradient = input_gradient(gradient, transposed[i], self.dtypes[i])
                gradient = self._activation.backward(gradient, inputs[i])
                if between:
                    norms = found.norms[i - 1] if found is not None and found.norms else None
                    gradient = between[i - 1].backward(gradient, norms)
            if of_rows is not None:
                values = input_gradient(gradient, transposed[0][..., columns], None)
                if which is not None:
                    of_rows.index_add_(0, which, values)
                else:
                    of_rows.add_(values if values.ndim == 2 else values.sum(dim=0))
        return of_rows

    def _rows_with_gradient(self, gradient: Tensor, between: list[BetweenLayers]) -> Tensor | None:
        """Return the rows of one network that have a gradient; None to process all rows."""
        if gradient.shape[-1] != 1 or self.views.at_once or any(each.drops for each in between):
            return None
        which = gradient[:, 0].nonzero().squeeze(1)
        return None if which.shape == gradient.shape[:1] else which


class ParameterMemory:
    """Views of the parameters of stacked networks, and memory for their gradients that is used repeatedly.

    Gradients in new memory would cost a tenth of an update of SAC: the C library returns large blocks to the operating
    system and has to request them again. Copies of a module start without any views or memory.
    """

    def __init__(self) -> None:
        self._views: LayerViews | None = None
        self._gradients: LayerViews | None = None
        self._users = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ParameterMemory, ()

    def views(self, weights: Sequence[Tensor], *others: Sequence[Tensor]) -> LayerViews:
        """Return views of weights, biases, scales and shifts, which are made again after the parameters were moved."""
        if self._views is None or not self._views.are_of(weights):
            self._views = LayerViews(weights, *others)
            self._gradients = None
        return self._views

    def gradients(self, views: LayerViews) -> LayerViews:
        """Return tensors for the gradients of the parameters in `views`, which nothing else refers to.

        The memory of an earlier call is used again as soon as the tensors that shared it are gone.
        """
        if views is not self._views:  # some of the networks alone
            return views.empty_like()
        if self._gradients is None:
            self._gradients = views.empty_like()
            self._users = users_of_memory(self._gradients)
        elif users_of_memory(self._gradients) != self._users:
            return views.empty_like()
        return self._gradients


def users_of_memory(views: LayerViews) -> int:
    """Return how many tensors share the memory of these views."""
    return sum(torch._C._storage_Use_Count(values.untyped_storage()._cdata) for values in views.tensors)


class BatchedLayers(torch.autograd.Function):
    """A `ForwardPass` as one function of autograd."""

    @staticmethod
    def forward(
        ctx: Any, memory: ParameterMemory, views: LayerViews, settings: PassSettings, blocks: int, *tensors: Tensor
    ) -> Tensor:
        """Return outputs ``(m, n, out)``.

        Args:
            ctx: Context of autograd.
            memory: Memory for the gradients of the parameters.
            views: Views of the parameters of all networks.
            settings: How the networks run.
            blocks: Number of blocks of columns.
            *tensors: The blocks ``(n, columns)``, which form the rows side by side, then the parameters in the order
                of `LayerViews.tensors`.
        """
        ctx.views = views
        ctx.version = views.version()
        ctx.widths = [block.shape[1] for block in tensors[:blocks]]
        ctx.memory = memory
        ctx.settings = settings
        rows = tensors[0] if blocks == 1 else torch.cat(tensors[:blocks], dim=1)
        ctx.done = ForwardPass(rows, views if settings.networks is None else views.some(settings.networks), settings)
        return ctx.done.forward()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of all blocks and parameters that require one."""
        if ctx.views.version() != ctx.version:
            raise RuntimeError("parameters were changed in place between the forward and the backward pass")
        blocks = len(ctx.widths)
        needed = ctx.needs_input_grad[4 : 4 + blocks]
        first = needed.index(True) if any(needed) else blocks
        columns = slice(sum(ctx.widths[:first]), None) if first < blocks else None
        learned = any(ctx.needs_input_grad[4 + blocks :])
        into = ctx.memory.gradients(ctx.done.views) if learned else None
        of_rows = ctx.done.backward(gradients, into, columns)

        of_blocks: list[Tensor | None] = [None] * blocks
        if of_rows is not None:
            for i, part in enumerate(of_rows.split(ctx.widths[first:], dim=1), start=first):
                of_blocks[i] = part if needed[i] else None
        of_parameters: list[Tensor | None] = [None] * (len(ctx.needs_input_grad) - 4 - blocks)
        if into is not None:
            for i, values in enumerate(into.tensors):
                networks = ctx.settings.networks
                whole = values if networks is None else spread_over_networks(values, ctx.views.tensors[i], networks)
                of_parameters[i] = whole.view_as(whole)
        return (None, None, None, None, *of_blocks, *of_parameters)


def spread_over_networks(values: Tensor, like: Tensor, networks: Networks) -> Tensor:
    """Return zeros of the shape of `like` ``(m, ...)`` with `values` ``(k, ...)`` at the k numbers `networks`."""
    index = networks if isinstance(networks, Tensor) else torch.tensor(networks, device=values.device)
    return torch.zeros_like(like).index_copy_(0, index, values)


def between_layers(views: LayerViews, rows: Tensor, dropped: Dropped | None, keep: float) -> list[list[BetweenLayers]]:
    """Return dropout and normalization behind each hidden layer of each member; [] if there are none.

    Args:
        views: Views of the parameters.
        rows: Inputs of the networks, ``(n, in)``.
        dropped: Dropped hidden units, or None.
        keep: Probability with which units are kept.
    """
    if dropped is None and not views.parts[2]:
        return []
    hidden = views.depth - 1
    if dropped is not None and views.at_once:
        joined_layers = []
        for layer, weights in zip(zip(*dropped, strict=True), views.parts[0], strict=False):
            joined_layers.append(joined(layer, len(rows) * weights.shape[-1]))
        dropped = [joined_layers]
    found = []
    for number, member in enumerate(views.members):
        norms: Sequence[Any] = member.norms or [None] * hidden
        units: Sequence[Any] = [None] * hidden if dropped is None else dropped[number]
        found.append([BetweenLayers(norm, unit, keep) for norm, unit in zip(norms, units, strict=True)])
    return found


def joined(dropped: Sequence[Tensor], size: int) -> Tensor:
    """Return the dropped units of one layer of m networks, each of `size` numbers ``(n, width)``."""
    if dropped[0].dtype is torch.bool:
        return torch.stack(list(dropped))
    return torch.cat([own + j * size for j, own in enumerate(dropped)])


def at_once(device: torch.device) -> bool:
    """Return whether all networks are computed in one product per layer."""
    return device.type != "cpu"
