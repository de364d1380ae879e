"""Optimizers: Adam in one fused kernel, RMSprop as published with DQN and IMPALA, and Polyak averaging."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class PlainOptimizer(torch.optim.Optimizer):
    """Base class of optimizers that do not import PyTorch's compiler.

    PyTorch imports it, which takes 1.3 s, to exclude these methods from compilation. Nothing here is compiled.

    Attributes:
        loads: Number of states that were loaded; each replaces the tensors of the state.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    loads = 0
    _rate: Tensor | None = None
    _rate_on_device = math.nan

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        inspect.unwrap(torch.optim.Optimizer.load_state_dict)(self, state_dict)
        self.loads += 1

    def learning_rate(self) -> float | Tensor:
        """Return the learning rate; on a GPU as a tensor ``()``, which is updated here and not in a CUDA graph."""
        group = self.param_groups[0]
        device = group["params"][0].device
        if device.type == "cpu":
            return group["lr"]
        if self._rate is None or self._rate.device != device:
            self._rate = torch.zeros((), dtype=torch.float32, device=device)
            self._rate_on_device = math.nan
        if self._rate_on_device != group["lr"]:
            self._rate.fill_(group["lr"])
            self._rate_on_device = group["lr"]
        return self._rate


class FastAdam(PlainOptimizer, torch.optim.Adam):
    """Adam (Kingma & Ba 2015, arXiv:1412.6980) of one group of parameters in one fused kernel.

    Arithmetic and state equal PyTorch's. PyTorch's `step` collects the tensors of every parameter in each call and runs
    hooks, which takes a tenth of an update of SAC. Here, the tensors are collected once.

    Args:
        params: Parameters of one device and dtype; each requires a gradient before every step.
        lr: Learning rate.
        weight_decay: c of the term c·½‖θ‖²; its gradient is added.
        eps: ε, added to the root.

    Attributes:
        kernel: Function that takes the step.
        decoupled: Whether weight decay is not part of the gradients.
    """

    kernel: Callable[..., None] = staticmethod(torch._fused_adam_)
    decoupled = False
    _moments: tuple[list[Tensor], list[Tensor], list[Tensor]] | None = None

    def __init__(self, params: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0, eps: float = 1e-8):
        super().__init__(params, lr=lr, weight_decay=weight_decay, eps=eps, fused=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with a step count for each parameter, as PyTorch's Adam would."""
        state = super().state_dict()
        for number, values in state["state"].items():
            state["state"][number] = values | {"step": values["step"].clone()}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._moments = None

    @torch.no_grad()
    def apply(self) -> None:
        """Take one step, as `step` does."""
        averages, squares, steps = self.moments()
        group = self.param_groups[0]
        parameters, gradients = self._list_stepped()
        steps[0] += 1  # one count for all
        self.kernel(
            parameters,
            gradients,
            averages,
            squares,
            [],
            steps,
            lr=self.learning_rate(),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )

    def moments(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return first moments, second moments and step counts, which are part of the state from now on."""
        if self._moments is None:
            self._moments = self._collect()
        return self._moments

    def compile(self, compiler: Callable[..., Any]) -> None:
        """Take later steps with a compiled function, see `make_adam_step`."""
        step = functools.partial(make_adam_step, decoupled=self.decoupled)
        self.kernel = compiler(step, self.param_groups[0]["params"][0].device)

    def _list_stepped(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors that a step changes, and their gradients."""
        parameters = self.param_groups[0]["params"]
        return parameters, list(map(match_memory_order, parameters))

    def _collect(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return first moments, second moments and step counts of the parameters; missing ones are zero."""
        group = self.param_groups[0]
        count = torch.zeros((), dtype=torch.float32)
        for parameter in group["params"]:
            count = self.state.get(parameter, {}).get("step", count)
        count = count.to(group["params"][0].device)  # the state of a plain Adam counts on the processor
        averages = []
        squares = []
        for parameter in group["params"]:
            state = self.state[parameter]
            if not state:
                state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
                state["exp_avg_sq"] = state["exp_avg"].clone()
            state["step"] = count
            averages.append(state["exp_avg"])
            squares.append(state["exp_avg_sq"])
        return averages, squares, [count] * len(averages)


def make_adam_step(
    parameters: list[Tensor],
    gradients: list[Tensor],
    averages: list[Tensor],
    squares: list[Tensor],
    _: list[Tensor],
    steps: list[Tensor],
    *,
    lr: Tensor,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    decoupled: bool,
    **others: bool,
) -> None:
    """Take a step as `torch._fused_adam_` does, with its arguments, in operations that PyTorch compiles.

    On a GPU, the fused kernel gives 65,536 numbers to each block of threads, so that a network of 256 units keeps three
    of the GPU's hundred multiprocessors busy.

    Only the first of `steps` counts. If `decoupled`, parameters are multiplied by 1 − η·λ, otherwise c·θ is added to
    the gradients.
    """
    step = steps[0]
    if decoupled:
        torch._foreach_mul_(parameters, 1.0 - lr * weight_decay)
    elif weight_decay:
        gradients = list(torch._foreach_add(gradients, parameters, alpha=weight_decay))
    torch._foreach_lerp_(averages, gradients, 1.0 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - beta2)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_div_(roots, (1.0 - beta2**step).sqrt())
    torch._foreach_add_(roots, eps)
    changes = torch._foreach_div(averages, roots)
    torch._foreach_mul_(changes, lr / (1.0 - beta1**step))
    torch._foreach_sub_(parameters, changes)


class FlatAdam(FastAdam):
    """`FastAdam` of a small network with one flat tensor each for parameters, gradients and moments.

    Each parameter becomes a view of one tensor.

    Attributes:
        gradients: Gradients of all parameters ``(total,)``.
        pieces: Views of `gradients`, one per parameter and of its shape.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, eps: float = 1e-8):
        params = list(params)
        super().__init__(params, lr, eps=eps)
        self._whole, self._values = flatten_tensors(list(map(Tensor.detach, params)))
        self.gradients, self.pieces = flatten_tensors(list(map(torch.zeros_like, params)))
        for parameter, value, piece in zip(params, self._values, self.pieces, strict=True):
            parameter.data = value
            parameter.grad = piece

    def _list_stepped(self) -> tuple[list[Tensor], list[Tensor]]:
        parameters = self.param_groups[0]["params"]
        for parameter, value, piece in zip(parameters, self._values, self.pieces, strict=True):
            if parameter.grad is not piece:  # autograd set a new tensor
                piece.copy_(parameter.grad)
                parameter.grad = piece
            if parameter.data_ptr() != value.data_ptr():  # the parameter was moved
                value.copy_(parameter.detach())
                parameter.data = value
        return [self._whole], [self.gradients]

    def _collect(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        averages, squares, steps = super()._collect()
        average, own_averages = flatten_tensors(averages)
        square, own_squares = flatten_tensors(squares)
        parameters = self.param_groups[0]["params"]
        for parameter, first, second in zip(parameters, own_averages, own_squares, strict=True):
            self.state[parameter] |= {"exp_avg": first, "exp_avg_sq": second}
        return [average], [square], steps[:1]


def flatten_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return one tensor ``(total,)`` with copies of all tensors, and its views of their shapes."""
    whole = torch.cat(list(map(torch.ravel, tensors)))
    parts = whole.split(list(map(Tensor.numel, tensors)))
    return whole, list(map(Tensor.view_as, parts, tensors))


def match_memory_order(parameter: Tensor) -> Tensor:
    """Return a parameter's gradient in the same order in memory: fused kernels ignore strides.

    Autograd returns gradients of convolutions in another order, such as channels last, if the images have this order.
    """
    gradient: Any = parameter.grad
    if gradient.stride() == parameter.stride() or (gradient.is_contiguous() and parameter.is_contiguous()):
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


class FastAdamW(FastAdam):
    """`FastAdam` with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).

    Parameters are multiplied by 1 − η·λ before each step, λ the weight decay.
    """

    kernel = staticmethod(torch._fused_adamw_)
    decoupled = True


class RMSprop(PlainOptimizer):
    """RMSprop with ε under the root and without momentum: g / √(v + ε).

    PyTorch's adds ε to the root, and starts the squares at 0, so that its first steps are 1/√(1 − decay) times as long
    as TensorFlow's.

    Args:
        params: Parameters.
        lr: Learning rate.
        decay: Decay of the averages per step.
        eps: ε.
        centered: With True, v = E[g²] − E[g]² with averages from 0, as in Mnih et al. 2015 and dqn_zoo. Otherwise,
            v = E[g²] from 1, as in TensorFlow, published with IMPALA and A2C.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float, eps: float, centered: bool = False):
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps, "weight_decay": 0.0})
        self.centered = centered

    @torch.no_grad()
    def apply(self) -> None:
        """Take one step down the gradients of all parameters."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for parameter in params:
                if not self.state[parameter]:
                    self._start(parameter)
            gradients = [p.grad for p in params]
            squares = [self.state[p]["square"] for p in params]
            share = 1.0 - group["decay"]
            torch._foreach_lerp_(squares, torch._foreach_mul(gradients, gradients), share)
            if self.centered:
                averages = [self.state[p]["average"] for p in params]
                torch._foreach_lerp_(averages, gradients, share)
                squares = list(torch._foreach_sub(squares, torch._foreach_mul(averages, averages)))
                torch._foreach_clamp_min_(squares, 0.0)  # rounding errors can make them negative
            roots = torch._foreach_add(squares, group["eps"])
            torch._foreach_sqrt_(roots)
            rate = self.learning_rate()
            if isinstance(rate, Tensor):
                torch._foreach_div_(roots, rate)
                rate = 1.0
            torch._foreach_addcdiv_(params, gradients, roots, -rate)

    def _start(self, parameter: Tensor) -> None:
        if self.centered:
            self.state[parameter] |= {"average": torch.zeros_like(parameter), "square": torch.zeros_like(parameter)}
        else:
            self.state[parameter]["square"] = torch.ones_like(parameter)


@torch.no_grad()
def polyak(targets: list[Tensor], sources: list[Tensor], tau: float) -> None:
    """Move `targets` a share `tau` of the way to `sources`, in place."""
    torch._foreach_lerp_(targets, sources, tau)
