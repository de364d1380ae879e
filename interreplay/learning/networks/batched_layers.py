"""Stacked fully connected networks of one shape as one function of autograd, with a hand-written backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from interreplay.learning.networks.between_layers import BetweenLayers, Dropped

Networks = Sequence[int] | Tensor
"""Indices of some of the networks; a tensor ``(k,)`` on a GPU, where reading them would wait for the device."""

_users_of_storage: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)
# PyTorch has no public way to ask whether other tensors share a storage. This is the function that its CUDA graphs use
# for the same purpose. If it ever disappears, gradients get new memory in every update, which is slower and as correct.


def at_once(device: torch.device) -> bool:
    """Return whether all networks are computed in one product per layer."""
    return device.type != "cpu"


class Member(NamedTuple):
    """Views of the parameters of one network, or of all networks, per layer.

    Attributes:
        weights: ``(in, out)`` of every layer, or ``(m, in, out)``. Of one network, ``(in,)`` of a last layer with one
            output.
        biases: ``(out,)`` of every layer, or ``(m, 1, out)``.
        norms: γ and β ``(out,)`` of every hidden layer, or ``(m, 1, out)``; empty without layer normalization.
    """

    weights: list[Tensor]
    biases: list[Tensor]
    norms: list[tuple[Tensor, Tensor]]

    @classmethod
    def from_stack(cls, number: int, parts: Sequence[Sequence[Tensor]]) -> Member:
        """Return views of the parameters of one network."""
        weights, biases, scales, shifts = parts
        own_weights = [weight[number] for weight in weights]
        if own_weights[-1].shape[1] == 1:
            own_weights[-1] = own_weights[-1][:, 0]
        norms = []
        for scale, shift in zip(scales, shifts, strict=True):
            norms.append((scale[number, 0], shift[number, 0]))
        return cls(own_weights, [bias[number, 0] for bias in biases], norms)

    def subset(self, index: slice | Networks) -> Member:
        """Return the parameters of some of all networks."""
        norms = []
        for scale, shift in self.norms:
            norms.append((scale[index], shift[index]))
        return Member([weight[index] for weight in self.weights], [bias[index] for bias in self.biases], norms)


class LayerViews:
    """Views of the stacked parameters of m fully connected networks, grouped as they are multiplied.

    A GPU computes all networks in one product per layer. A processor computes one network after the other, so that
    its activations stay in the cache.

    Args:
        parts: Weights ``(m, in, out)`` and biases ``(m, 1, out)`` of every layer, and scales and shifts ``(m, 1, out)``
            of every hidden layer with normalization.
        detach: Whether the views are constants to autograd.

    Attributes:
        parts: The views in the same form.
        tensors: All of them in this order.
        members: One network after the other, or all networks at once.
        count: Number of networks m.
        depth: Number of layers.
    """

    def __init__(self, parts: Iterable[Iterable[Tensor]], *, detach: bool = True):
        self.parts: list[list[Tensor]] = []
        for part in parts:
            self.parts.append(list(map(Tensor.detach, part)) if detach else list(part))
        self.tensors = sum(self.parts, [])
        self.count = len(self.tensors[0])
        self.depth = len(self.parts[0])
        self.at_once = at_once(self.tensors[0].device)
        self._read_by_backward = [*self.parts[0], *self.parts[2]]
        self._gradients: LayerViews | None = None
        self._users = 0
        self._storage: Any = None
        if self.at_once:
            own_weights, own_biases, own_scales, own_shifts = self.parts
            self.members = [Member(own_weights, own_biases, list(zip(own_scales, own_shifts, strict=True)))]
        else:
            self.members = []
            for number in range(self.count):
                self.members.append(Member.from_stack(number, self.parts))

    def version(self) -> int:
        """Return the number of in-place changes of the parameters that a backward pass reads."""
        version = 0
        for values in self._read_by_backward:
            version += values._version
        return version

    def are_views(self, weights: Sequence[Tensor]) -> bool:
        """Return whether these are views of `weights`; False after the module was moved."""
        return list(map(Tensor.data_ptr, self.parts[0])) == list(map(Tensor.data_ptr, weights))

    def select_networks(self, networks: Networks) -> LayerViews:
        """Return views of some networks; on a GPU copies, unless they are the first networks."""
        found = LayerViews.__new__(LayerViews)
        for name in ("parts", "tensors", "depth", "at_once", "_read_by_backward", "_users", "_storage"):
            setattr(found, name, getattr(self, name))
        found.count = len(networks)
        found._gradients = None
        if not self.at_once:
            found.members = [self.members[number] for number in networks]
        elif not isinstance(networks, Tensor) and list(networks) == list(range(len(networks))):
            found.members = [self.members[0].subset(slice(0, len(networks)))]
        else:
            found.members = [self.members[0].subset(networks)]
        return found

    def gradients(self) -> LayerViews:
        """Return tensors for the gradients of the parameters of all `count` networks, which nothing else refers to.

        Gradients in new memory would cost a tenth of an update of SAC: the C library returns large blocks to the
        operating system and has to request them again. So the memory of an earlier call is used again as soon as the
        tensors that shared it are gone.
        """
        if self._gradients is not None and self._gradients.count_users() == self._users:
            return self._gradients
        shapes = [(self.count, *values.shape[1:]) for values in self.tensors]
        sizes = list(map(math.prod, shapes))
        whole = self.tensors[0].new_empty(sum(sizes))
        pieces = whole.split(sizes)
        tensors = iter(map(Tensor.view, pieces, shapes))
        made = LayerViews([[next(tensors) for _ in part] for part in self.parts])
        if self._gradients is None and _users_of_storage is not None:
            made._storage = whole.untyped_storage()
            del whole, pieces, tensors
            self._users = made.count_users()
            self._gradients = made
        return made

    def count_users(self) -> int:
        """Return the number of tensors that share the single storage of these views."""
        assert _users_of_storage is not None
        return _users_of_storage(self._storage._cdata)


class Activation(NamedTuple):
    """A function between layers.

    Attributes:
        forward: Applies it in place.
        backward: Turns the gradient of its outputs into the gradient of its inputs, in place; also takes the outputs.
    """

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


_relu_gradient = torch.ops.aten.threshold_backward.grad_input
_tanh_gradient = torch.ops.aten.tanh_backward.grad_input

ACTIVATIONS = {
    "relu": Activation(
        Tensor.relu_, lambda gradient, outputs: _relu_gradient(gradient, outputs, 0, grad_input=gradient)
    ),
    "tanh": Activation(Tensor.tanh_, lambda gradient, outputs: _tanh_gradient(gradient, outputs, grad_input=gradient)),
}
"""Functions between layers by name."""


class PassSettings(NamedTuple):
    """Settings of a forward pass of m networks.

    Attributes:
        pass_class: Class of the pass.
        dtype: Type of the products between hidden layers and of their gradients. The first and the last layer, sums
            and activations keep the type of the rows. None for that type everywhere.
        activation: Name of the function between layers, a key of `ACTIVATIONS`.
        keep: Probability with which hidden units are kept.
        dropped: The dropped hidden units of each network that runs, or None.
        networks: Indices of the networks that run; None for all.
        frozen: Whether the parameters are constants: only the rows receive gradients.
    """

    pass_class: type[ForwardPass]
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
    """

    def __init__(self, rows: Tensor, views: LayerViews, settings: PassSettings):
        if settings.networks is not None:
            views = views.select_networks(settings.networks)
        self.rows = rows
        self.views = views
        self._activation = ACTIVATIONS[settings.activation]
        hidden = views.depth - 1
        self._dtypes = [None, *[settings.dtype] * (hidden - 1), None]
        self._inputs: list[list[Tensor]] = []
        self._between = self.make_between(settings.dropped, settings.keep)

    def make_between(self, dropped: Dropped | None, keep: float) -> list[list[BetweenLayers]]:
        """Return dropout and normalization behind each hidden layer of each member; [] if there are none."""
        views = self.views
        if dropped is None and not views.parts[2]:
            return []
        hidden = views.depth - 1
        if dropped is not None and views.at_once:
            joined_layers = []
            for layer, weights in zip(zip(*dropped, strict=True), views.parts[0], strict=False):
                size = len(self.rows) * weights.shape[-1]
                if layer[0].dtype is torch.bool:
                    joined_layers.append(torch.stack(list(layer)))
                else:
                    joined_layers.append(torch.cat([own + j * size for j, own in enumerate(layer)]))
            dropped = [joined_layers]
        found = []
        for number, member in enumerate(views.members):
            norms: Sequence[Any] = member.norms or [None] * hidden
            units: Sequence[Any] = [None] * hidden if dropped is None else dropped[number]
            found.append([BetweenLayers(norm, unit, keep) for norm, unit in zip(norms, units, strict=True)])
        return found

    def forward(self, keep_inputs: bool = True) -> Tensor:
        """Return the outputs ``(m, n, out)``, which are not kept: autograd's references to them would be circular."""
        rows = self.rows
        if self.views.at_once:
            rows = rows.expand(self.views.count, *rows.shape)
        outputs = []
        for number, member in enumerate(self.views.members):
            inputs: list[Tensor] | None = [] if keep_inputs else None
            outputs.append(self.run(number, member, rows, inputs))
            if inputs is not None:
                self._inputs.append(inputs)
        if self.views.at_once:
            return outputs[0]
        return torch.stack(outputs)

    def run(self, number: int, member: Member, rows: Tensor, inputs: list[Tensor] | None) -> Tensor:
        """Return the outputs of one member for rows ``(..., n, in)``; `inputs` receives the inputs of its layers."""
        hidden = self.views.depth - 1
        activate = self._activation.forward
        values = rows
        for i in range(hidden):
            if inputs is not None:
                inputs.append(values)
            values = affine(values, member.weights[i], member.biases[i], self._dtypes[i])
            if self._between:
                values = self._between[number][i].forward(values)
            values = activate(values)
        if inputs is not None:
            inputs.append(values)
        return affine(values, member.weights[hidden], member.biases[hidden])

    def backward(
        self, gradients: Tensor, into: LayerViews | None = None, columns: slice | None = None
    ) -> Tensor | None:
        """Propagate gradients ``(m, n, out)`` of the outputs; return those of the columns ``(n, k)``, if any.

        Args:
            gradients: Gradients of the outputs.
            into: Receives the gradients of the parameters; None if these are not required.
            columns: The k columns of the rows that require gradients; None for no columns.
        """
        of_rows = None
        if columns is not None:
            of_rows = torch.zeros_like(self.rows[:, columns])
        if self.views.at_once:
            of_members: Sequence[Tensor] = [gradients]
        else:
            of_members = gradients.unbind(0)
        # The inputs of the last network are the most likely to be in the cache.
        for number in reversed(range(len(of_members))):
            self._backward_member(number, of_members[number], into, columns, of_rows)
        return of_rows

    def _backward_member(
        self, number: int, gradient: Tensor, into: LayerViews | None, columns: slice | None, of_rows: Tensor | None
    ) -> None:
        """Propagate the gradient of one member's outputs; add the gradient of the columns to `of_rows`."""
        weights = self.views.members[number].weights
        inputs = self._inputs[number]
        between = self._between[number] if self._between else []
        found = None
        which = None
        if into is not None:
            found = into.members[number]
        elif weights[-1].ndim == 1 and not any(each.dropped is not None for each in between):
            which = gradient[:, 0].nonzero().squeeze(1)
            if which.shape[0] < gradient.shape[0]:
                gradient = gradient.index_select(0, which)
                inputs = [inputs[0], *[values.index_select(0, which) for values in inputs[1:]]]
                between = [each.rows(which) for each in between]
            else:
                which = None
        gradient = self.to_first_layer(gradient, weights, inputs, between, found)
        if of_rows is None:
            return
        values = input_gradient(gradient, weights[0][..., columns, :])
        if which is not None:
            of_rows.index_add_(0, which, values)
        elif self.views.at_once:
            of_rows.add_(values.sum(dim=0))
        else:
            of_rows.add_(values)

    def to_first_layer(
        self,
        gradient: Tensor,
        weights: Sequence[Tensor],
        inputs: Sequence[Tensor],
        between: Sequence[BetweenLayers],
        into: Member | None,
    ) -> Tensor:
        """Return the gradient of the first layer's outputs, given the gradient of the last layer's outputs.

        Arguments have one entry per layer; `into` receives the gradients of the parameters, if they are required.
        """
        for i in reversed(range(len(weights))):
            if into is not None:
                weight_gradient(inputs[i], gradient, self._dtypes[i], out=into.weights[i])
                bias_gradient(gradient, out=into.biases[i])
            if i == 0:
                break
            gradient = input_gradient(gradient, weights[i], self._dtypes[i])
            gradient = self._activation.backward(gradient, inputs[i])
            if between:
                norms = into.norms[i - 1] if into is not None and into.norms else None
                gradient = between[i - 1].backward(gradient, norms)
        return gradient


class BatchedLayers(torch.autograd.Function):
    """A `ForwardPass` as one function of autograd."""

    @staticmethod
    def forward(ctx: Any, views: LayerViews, settings: PassSettings, blocks: int, *tensors: Tensor) -> Tensor:
        """Return outputs ``(m, n, out)``.

        `tensors` are `blocks` blocks ``(n, columns)``, which form the rows side by side, then the parameters in the
        order of `LayerViews.tensors`.
        """
        ctx.views = views
        ctx.version = views.version()
        ctx.networks = settings.networks
        ctx.widths = [block.shape[1] for block in tensors[:blocks]]
        rows = tensors[0]
        if blocks > 1:
            rows = torch.cat(tensors[:blocks], dim=1)
        ctx.done = settings.pass_class(rows, views, settings)
        return ctx.done.forward()

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of all blocks and parameters that require one."""
        if torch.is_grad_enabled():
            raise RuntimeError("stacked networks have no second derivative; expected create_graph=False")
        if ctx.views.version() != ctx.version:
            raise RuntimeError(
                "parameters were changed in place after the forward pass; expected no change until backward() returns"
            )
        blocks = len(ctx.widths)
        required = ctx.needs_input_grad[3:]
        columns = None
        first = blocks
        if True in required[:blocks]:
            first = required.index(True)
            columns = slice(sum(ctx.widths[:first]), None)
        into = None
        if True in required[blocks:]:
            into = ctx.done.views.gradients()
        of_rows = ctx.done.backward(gradients, into, columns)

        found: list[Tensor | None] = [None] * len(required)
        if of_rows is not None:
            found[first:blocks] = of_rows.split(ctx.widths[first:], dim=1)
        if into is None:
            return (None, None, None, *found)
        if ctx.networks is None:
            found[blocks:] = map(Tensor.view_as, into.tensors, into.tensors)
        else:
            index = torch.as_tensor(ctx.networks, device=gradients.device)
            for place, (values, like) in enumerate(zip(into.tensors, ctx.views.tensors, strict=True), blocks):
                found[place] = torch.zeros_like(like).index_copy_(0, index, values)  # zero for other networks
        return (None, None, None, *found)


# -- Products ------------------------------------------------------------------------------------
# Shapes are those of one network; for m networks at once, each has a leading m, and biases are ``(m, 1, out)``. The
# weight of a layer with one output may be a vector ``(in,)``, which multiplies faster than a column.


def product(a: Tensor, b: Tensor, dtype: torch.dtype | None, out: Tensor | None = None) -> Tensor:
    """Return a·b ``(n, out)`` in the type of `a`, computed in `dtype` if one is given."""
    if dtype is None:
        if a.ndim == 2:
            return torch.mm(a, b, out=out)
        return torch.bmm(a, b, out=out)
    found = torch.matmul(a.to(dtype), b.to(dtype))
    return found.to(a.dtype) if out is None else out.copy_(found)


def affine(inputs: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return inputs·weight + bias ``(n, out)``; a `dtype` is the type of the product."""
    if weight.ndim == 1:
        return torch.addmv(bias, inputs, weight).unsqueeze(1)
    if dtype is not None:
        return product(inputs, weight, dtype).add_(bias)
    if inputs.ndim == 2:
        return torch.addmm(bias, inputs, weight)
    return torch.baddbmm(bias, inputs, weight)


def weight_gradient(inputs: Tensor, gradient: Tensor, dtype: torch.dtype | None, out: Tensor) -> None:
    """Write the gradient of a layer's weight to `out`, given its inputs ``(n, in)`` and output gradients."""
    if out.ndim == 1:
        torch.mv(inputs.t(), gradient[:, 0], out=out)
    else:
        product(inputs.mT, gradient, dtype, out=out)


def input_gradient(gradient: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the gradient of a layer's inputs ``(n, in)``, given the gradient of its outputs ``(n, out)``."""
    if weight.ndim == 1:
        return gradient * weight
    if weight.shape[-2] < weight.shape[-1]:
        # With few inputs, a product with the inputs as its rows is faster than with the inputs as its columns.
        return product(weight, gradient.mT, dtype).mT
    return product(gradient, weight.mT, dtype)


def bias_gradient(gradient: Tensor, out: Tensor) -> None:
    """Write the gradient of a layer's bias to `out`, given the gradient of its outputs ``(n, out)``."""
    torch.sum(gradient, dim=-2, keepdim=out.ndim == 3, out=out)
