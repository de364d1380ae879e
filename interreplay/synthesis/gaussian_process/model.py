"""The Gaussian processes as GPyTorch models: what is fitted by marginal likelihood.

GPyTorch (Gardner et al. 2018, arXiv:1809.11165) brings kernels, priors, constraints and the likelihood. Predictions for
batches are made in `posterior`, which costs a fraction (docs/decisions/0008-gaussian-processes.md).
"""

from __future__ import annotations

import math
from typing import Any

import gpytorch
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean, Mean, ZeroMean
from gpytorch.priors import GammaPrior
from torch import Tensor

from interreplay.synthesis.gaussian_process.kernels import LENGTH, Form, Hyperparameters

NOISE_FLOOR = 1e-3
"""Least σ_n², in units of the scaled targets."""


class Model(gpytorch.models.ExactGP):
    """b sets of T Gaussian processes with G kernels each, each set on its own points.

    Args:
        form: Of the processes.
        x: Features ``(b, m, d)``.
        y: Targets ``(b, m, T)``.
        priors: Gamma priors: means 3√d standard deviations on length scales, 9 on σ_f², .11 on σ_n².
        spread: Standard deviation of a feature.
    """

    mean_module: Mean
    covar_module: ScaleKernel
    likelihood: gpytorch.likelihoods.GaussianLikelihood

    def __init__(self, form: Form, x: Tensor, y: Tensor, priors: bool = False, spread: float = 1.0):
        groups, targets = form.groups(y.shape[2]), y.shape[2]
        kernels, means = torch.Size([len(x), groups]), torch.Size([len(x), targets])
        noise = gpytorch.likelihoods.GaussianLikelihood(
            batch_shape=kernels,
            noise_constraint=GreaterThan(NOISE_FLOOR),
            noise_prior=GammaPrior(1.1, 10.0) if priors else None,
        )
        super().__init__(x.unsqueeze(1), y.mT, noise)
        self.form = form
        self.mean_module = _mean(form, means)
        length = GammaPrior(3.0, 3.0 / (LENGTH * spread * math.sqrt(form.features))) if priors else None
        self.parts = [_kernel(form, block, kernels, length) for block in form.slices]
        product = self.parts[0]
        for part in self.parts[1:]:
            product = product * part
        self.covar_module = ScaleKernel(
            product, GammaPrior(2.0, 2.0 / LENGTH**2) if priors else None, batch_shape=kernels
        )
        self.to(x)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Return the prior over the function at points ``(b, 1, m, d)``."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def log_posterior(self) -> Tensor:
        """Return a scalar: log marginal likelihoods summed over all processes, plus the log priors, once per kernel."""
        total = self.likelihood(self(*self.train_inputs)).log_prob(self.train_targets).sum()
        for _, module, prior, closure, _ in self.named_priors():
            total = total + prior.log_prob(closure(module)).sum()
        return total

    def read(self) -> Hyperparameters:
        """Return the hyperparameters now."""
        form = self.form
        b, groups = self.covar_module.outputscale.shape
        lengths = [
            part.lengthscale.reshape(b, groups, -1).expand(-1, -1, width)
            for part, width in zip(self.parts, form.blocks, strict=True)
        ]
        outputscale = self.covar_module.outputscale
        ones, rational = torch.ones_like(outputscale), form.kernel == "rq"
        alpha = [part.alpha.reshape(b, groups) if rational else ones for part in self.parts]
        targets = self.train_targets.shape[1]
        constant = outputscale.new_zeros(b, targets)
        if form.mean == "constant":
            constant = self.mean_module.constant.reshape(b, targets)
        elif form.mean == "linear":
            constant = self.mean_module.bias.reshape(b, targets)
        return Hyperparameters(
            lengthscale=torch.cat(lengths, dim=2),
            outputscale=outputscale,
            noise=self.likelihood.noise.reshape(b, groups),
            alpha=torch.stack(alpha, dim=2),
            constant=constant,
            slope=self.mean_module.weights.reshape(b, targets, -1) if form.mean == "linear" else None,
        ).map(lambda value: value.detach().clone())

    def write(self, hyper: Hyperparameters) -> None:
        """Set the hyperparameters; one set is given to all b."""
        form = self.form
        b, groups = self.covar_module.outputscale.shape
        targets = self.train_targets.shape[1]
        for number, (part, block) in enumerate(zip(self.parts, form.slices, strict=True)):
            length = hyper.lengthscale[..., block] if form.ard else hyper.lengthscale[..., block][..., :1]
            part.lengthscale = length.expand(b, groups, -1).unsqueeze(2)
            if form.kernel == "rq":
                part.alpha = hyper.alpha[..., number].expand(b, groups).unsqueeze(2)
        self.covar_module.outputscale = hyper.outputscale.expand(b, groups)
        self.likelihood.noise = hyper.noise.clamp(min=NOISE_FLOOR * 1.001).expand(b, groups).unsqueeze(2)
        if form.mean == "constant":
            self.mean_module.initialize(constant=hyper.constant.expand(b, targets))
        elif form.mean == "linear":
            assert hyper.slope is not None
            self.mean_module.initialize(bias=hyper.constant.expand(b, targets).unsqueeze(2))
            self.mean_module.initialize(weights=hyper.slope.expand(b, targets, -1).unsqueeze(3))


def _mean(form: Form, shape: torch.Size) -> Mean:
    if form.mean == "zero":
        return ZeroMean(batch_shape=shape)
    return ConstantMean(batch_shape=shape) if form.mean == "constant" else LinearMean(form.features, batch_shape=shape)


def _kernel(form: Form, block: slice, shape: torch.Size, prior: Any) -> Kernel:
    """Return the kernel of one block of features."""
    count = form.features
    settings: dict[str, Any] = {
        "batch_shape": shape,
        "lengthscale_prior": prior,
        "ard_num_dims": block.stop - block.start if form.ard else None,
        "active_dims": None if block.stop - block.start == count else tuple(range(block.start, block.stop)),
    }
    if form.kernel == "rbf":
        return RBFKernel(**settings)
    return RQKernel(**settings) if form.kernel == "rq" else MaternKernel(nu=form.nu, **settings)
