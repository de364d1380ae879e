"""The Gaussian processes as GPyTorch models, for fits by marginal likelihood.

GPyTorch (Gardner et al. 2018, arXiv:1809.11165) provides kernels, priors, constraints and the likelihood. Predictions
for batches come from `posterior`, at a fraction of the cost (docs/decisions/0008-gaussian-processes.md).
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
"""Smallest σ_n², in units of the scaled targets."""


class Model(gpytorch.models.ExactGP):
    """b sets of T Gaussian processes with G kernels each, each set on its own points.

    Args:
        form: Form of the processes.
        x: Features ``(b, m, d)``.
        y: Targets ``(b, m, T)``.
        priors: Whether to use Gamma priors, with means of 3√d standard deviations for length scales, 9 for σ_f² and .11
            for σ_n².
        spread: Standard deviation of a feature.
    """

    mean_module: Mean
    covar_module: ScaleKernel
    likelihood: gpytorch.likelihoods.GaussianLikelihood

    def __init__(self, form: Form, x: Tensor, y: Tensor, priors: bool = False, spread: float = 1.0):
        targets = y.shape[2]
        kernels = torch.Size([len(x), form.groups(targets)])
        noise = gpytorch.likelihoods.GaussianLikelihood(
            batch_shape=kernels,
            noise_constraint=GreaterThan(NOISE_FLOOR),
            noise_prior=GammaPrior(1.1, 10.0) if priors else None,
        )
        super().__init__(x.unsqueeze(1), y.mT, noise)
        self.form = form
        means = {"zero": ZeroMean, "constant": ConstantMean, "linear": LinearMean}
        sizes = (form.features,) if form.mean == "linear" else ()
        self.mean_module = means[form.mean](*sizes, batch_shape=torch.Size([len(x), targets]))
        length = GammaPrior(3.0, 3.0 / (LENGTH * spread * math.sqrt(form.features))) if priors else None
        self.parts = [_kernel(form, block, kernels, length) for block in form.slices]
        product = self.parts[0]
        for part in self.parts[1:]:
            product = product * part
        scale = GammaPrior(2.0, 2.0 / LENGTH**2) if priors else None
        self.covar_module = ScaleKernel(product, scale, batch_shape=kernels)
        self.to(x)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Return the prior over the function at points ``(b, 1, m, d)``."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def log_posterior(self) -> Tensor:
        """Return the sum of the log marginal likelihoods of all processes and the log priors, once per kernel."""
        total = self.likelihood(self(*self.train_inputs)).log_prob(self.train_targets).sum()
        for _, module, prior, closure, _ in self.named_priors():
            total = total + prior.log_prob(closure(module)).sum()
        return total

    def read(self) -> Hyperparameters:
        """Return the current hyperparameters."""
        form = self.form
        outputscale = self.covar_module.outputscale
        b, groups = outputscale.shape
        targets = self.train_targets.shape[1]
        lengths = []
        alphas = []
        for part, width in zip(self.parts, form.blocks, strict=True):
            lengths.append(part.lengthscale.reshape(b, groups, -1).expand(-1, -1, width))
            alpha = part.alpha.reshape(b, groups) if form.kernel == "rq" else torch.ones_like(outputscale)
            alphas.append(alpha)
        constant = outputscale.new_zeros(b, targets)
        slope = None
        if form.mean == "constant":
            constant = self.mean_module.constant.reshape(b, targets)
        elif form.mean == "linear":
            constant = self.mean_module.bias.reshape(b, targets)
            slope = self.mean_module.weights.reshape(b, targets, -1)
        return Hyperparameters(
            lengthscale=torch.cat(lengths, dim=2),
            outputscale=outputscale,
            noise=self.likelihood.noise.reshape(b, groups),
            alpha=torch.stack(alphas, dim=2),
            constant=constant,
            slope=slope,
        ).map(lambda value: value.detach().clone())

    def write(self, hyper: Hyperparameters) -> None:
        """Set the hyperparameters; a single set is copied to all b."""
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


def _kernel(form: Form, block: slice, shape: torch.Size, prior: Any) -> Kernel:
    """Return the kernel of one block of features."""
    width = block.stop - block.start
    settings: dict[str, Any] = {
        "batch_shape": shape,
        "lengthscale_prior": prior,
        "ard_num_dims": width if form.ard else None,
        "active_dims": None if width == form.features else tuple(range(block.start, block.stop)),
    }
    if form.kernel == "rbf":
        return RBFKernel(**settings)
    if form.kernel == "rq":
        return RQKernel(**settings)
    return MaternKernel(nu=form.nu, **settings)
