"""RMSprop in the forms that DQN, and IMPALA and A2C, were published with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class RootMeanSquare(torch.optim.Optimizer):
    """g / √(v + ε) with ε under the root, and without momentum; what v is, subclasses say.

    Args:
        params: Parameters of one device and type.
        lr: Learning rate.
        decay: Share of the averages that stays per step.
        eps: ε.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float, eps: float):
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make one step by the gradients of all parameters."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for parameter in params:
                if not self.state[parameter]:
                    self.state[parameter] |= self._start(parameter)
            gradients = [p.grad for p in params]
            roots = torch._foreach_add(self._averaged(params, gradients, 1.0 - group["decay"]), group["eps"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(params, gradients, roots, -group["lr"])

    def _start(self, parameter: Tensor) -> dict[str, Tensor]:
        """Return the averages before the first step."""
        raise NotImplementedError

    def _averaged(self, params: list[Tensor], gradients: list[Tensor], share: float) -> list[Tensor]:
        """Take a `share` of the gradients into the averages; return v."""
        raise NotImplementedError


class CenteredRMSprop(RootMeanSquare):
    """g / √(E[g²] − E[g]² + ε), as in Mnih et al. 2015 and dqn_zoo: averages from 0.

    PyTorch's own RMSprop adds ε to the root, TensorFlow's squares start at 1.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float = 0.95, eps: float = 0.01 / 32**2):
        super().__init__(params, lr, decay, eps)

    def _start(self, parameter: Tensor) -> dict[str, Tensor]:
        return {name: torch.zeros_like(parameter) for name in ("average", "square")}

    def _averaged(self, params: list[Tensor], gradients: list[Tensor], share: float) -> list[Tensor]:
        averages, squares = ([self.state[p][name] for p in params] for name in ("average", "square"))
        torch._foreach_lerp_(averages, gradients, share)
        torch._foreach_lerp_(squares, torch._foreach_mul(gradients, gradients), share)
        variances = torch._foreach_mul(averages, averages)
        torch._foreach_sub_(variances, squares)
        torch._foreach_neg_(variances)
        torch._foreach_clamp_min_(variances, 0.0)  # rounding may give less
        return list(variances)


class TensorFlowRMSprop(RootMeanSquare):
    """g / √(E[g²] + ε) as TensorFlow has it and IMPALA and A2C were published with: squares from 1.

    PyTorch's own RMSprop starts the squares at 0, so that its first steps are 1/√(1 − decay) times as long, and adds ε
    to the root.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float = 0.99, eps: float = 0.01):
        super().__init__(params, lr, decay, eps)

    def _start(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"square": torch.ones_like(parameter)}

    def _averaged(self, params: list[Tensor], gradients: list[Tensor], share: float) -> list[Tensor]:
        squares = [self.state[p]["square"] for p in params]
        torch._foreach_lerp_(squares, torch._foreach_mul(gradients, gradients), share)
        return squares
