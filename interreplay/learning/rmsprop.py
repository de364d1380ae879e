"""RMSprop in the forms that DQN, and IMPALA and A2C, were published with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


class CenteredRMSprop(torch.optim.Optimizer):
    """g / √(E[g²] − E[g]² + ε), as in Mnih et al. 2015 and dqn_zoo: ε under the root, no momentum, averages from 0.

    PyTorch's own RMSprop adds ε to the root, TensorFlow's squares start at 1.

    Args:
        params: Parameters of one device and type.
        lr: Learning rate.
        decay: Share of the averages that stays per step.
        eps: ε.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float = 0.95, eps: float = 0.01 / 32**2):
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make one step by the gradients of all parameters."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for parameter in params:
                if not self.state[parameter]:
                    self.state[parameter] |= {
                        "average": torch.zeros_like(parameter),
                        "square": torch.zeros_like(parameter),
                    }
            gradients = [p.grad for p in params]
            averages, squares = ([self.state[p][name] for p in params] for name in ("average", "square"))
            torch._foreach_lerp_(averages, gradients, 1.0 - group["decay"])
            torch._foreach_lerp_(squares, torch._foreach_mul(gradients, gradients), 1.0 - group["decay"])
            roots = torch._foreach_mul(averages, averages)
            torch._foreach_sub_(roots, squares)
            torch._foreach_neg_(roots)
            torch._foreach_clamp_min_(roots, 0.0)  # rounding may give less
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(params, gradients, roots, -group["lr"])


class TensorFlowRMSprop(torch.optim.Optimizer):
    """g / √(E[g²] + ε) as TensorFlow has it and IMPALA and A2C were published with: squares from 1, ε under the root.

    PyTorch's own RMSprop starts the squares at 0, so that its first steps are 1/√(1 − decay) times as long, and adds ε
    to the root. There is no momentum, and no centering, which `CenteredRMSprop` has.

    Args:
        params: Parameters of one device and type.
        lr: Learning rate.
        decay: Share of the squares that stays per step.
        eps: ε.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float = 0.99, eps: float = 0.01):
        super().__init__(params, {"lr": lr, "decay": decay, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make one step by the gradients of all parameters."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for parameter in params:
                if not self.state[parameter]:
                    self.state[parameter] |= {"square": torch.ones_like(parameter)}
            gradients, squares = [p.grad for p in params], [self.state[p]["square"] for p in params]
            torch._foreach_lerp_(squares, torch._foreach_mul(gradients, gradients), 1.0 - group["decay"])
            roots = torch._foreach_add(squares, group["eps"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(params, gradients, roots, -group["lr"])
