"""BIER's batches and fits compared with one SAC update, and its predictions compared with GPyTorch.

    python -m benchmarks.speed.bier [--rows 50000] [--repeats 40]

HalfCheetah-v5, random behavior: 18 targets, 23 features, k 10, batch 256. All contenders run in this process
on one thread, in turn.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table

ORIGINAL = {"float32": 1.5, "float64": 9.0}
"""Reported seconds per epoch of 64 neighborhoods for the batched fit of BIER's original code."""


def sac_update(buffer: Any) -> Callable[[], object]:
    """Return a function that makes one SAC update with networks of 2×256 from one batch of the buffer."""
    import torch

    from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate

    batch = buffer.sample(256)
    rng = torch.Generator().manual_seed(0)
    update = SACUpdate(SACNetworks(17, 6), target_entropy=-6.0)
    return lambda: update.update(batch, rng)


def with_synthesizer(buffer: Any, synthesizer: Any) -> Callable[[], object]:
    """Return a function that draws a batch of the buffer with another synthesizer."""

    def draw() -> object:
        buffer.synthesizer = synthesizer
        return buffer.sample(256)

    return draw


def through_gpytorch(x: Any, y: Any, queries: Any, per_target: bool) -> Callable[[], object]:
    """Return a function that makes the same predictions with a GPyTorch model in evaluation mode."""
    import gpytorch
    import torch

    kernels = torch.Size([len(x), y.shape[2] if per_target else 1])
    scale = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RQKernel(batch_shape=kernels), batch_shape=kernels)
    mean = gpytorch.means.ZeroMean(batch_shape=torch.Size([len(x), y.shape[2]]))

    class Model(gpytorch.models.ExactGP):
        def forward(self, points: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(mean(points), scale(points))

    likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=kernels)
    model = Model(x.unsqueeze(1), y.mT, likelihood)
    model.covar_module = scale
    scale.outputscale = 9.0
    scale.base_kernel.lengthscale = 3.0 * x.shape[2] ** 0.5
    likelihood.noise = 0.02

    def predict() -> object:
        model.set_train_data(x.unsqueeze(1), y.mT, strict=False)
        model.train()
        model.eval()
        with torch.no_grad():
            found = model.likelihood(model(queries.unsqueeze(1)))
            return found.mean, found.variance

    return predict


def directly(x: Any, y: Any, queries: Any, per_target: bool) -> Callable[[], object]:
    """Return a function that computes our posterior."""
    from interreplay.synthesis.gaussian_process.processes import Form, Hyperparameters, posterior

    form = Form(per_target=per_target).over(x.shape[2], 6)
    hyper = Hyperparameters.make_initial(form, y.shape[2], 1.0, x.dtype)
    return lambda: posterior(form, hyper, x, y, queries)


def seconds_per_epoch(x: Any, y: Any, per_target: bool, epochs: int = 10) -> float:
    """Return the seconds per epoch of a fit of these neighborhoods, including the setup of the model."""
    from interreplay.synthesis.gaussian_process.fit import Fit, fit
    from interreplay.synthesis.gaussian_process.processes import Form, Hyperparameters

    form = Form("rbf", ard=True, per_target=per_target).over(x.shape[2], 6)
    start = Hyperparameters.make_initial(form, y.shape[2], 1.0, x.dtype)
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        fit(Fit(epochs), form, start, x, y)
        spent.append((time.perf_counter() - begin) / epochs)
    return float(np.median(spent))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    single_thread()
    warnings.simplefilter("ignore")
    import torch

    from benchmarks.training import fill
    from interreplay.synthesis import Mixup
    from interreplay.synthesis.gaussian_process import Fit, Form, GaussianProcess, Schedule
    from replay_buffers import BIER

    buffer = BIER(capacity=arguments.rows, seed=0)
    fill(buffer, "HalfCheetah-v5", arguments.rows)
    for slots in torch.arange(arguments.rows).split(1_000):  # searches for rows added in bulk, due when first drawn
        buffer.neighborhood.neighbor_slots(buffer.storage, slots, buffer.rng)
    makers = {
        "shared kernel": GaussianProcess(),
        "shared kernel, ARD": GaussianProcess(Form(ard=True)),
        "a kernel per target": GaussianProcess(Form(per_target=True)),
        "a kernel per target, ARD (the default)": GaussianProcess(Form(ard=True, per_target=True)),
        "linear blend of the same neighborhoods": Mixup(),
    }
    contenders = {"one SAC update": sac_update(buffer)}
    contenders |= {f"sample(256), {name}": with_synthesizer(buffer, maker) for name, maker in makers.items()}
    seconds = interleaved(contenders, arguments.repeats)
    base = seconds["one SAC update"]
    rows = [[n, f"{np.median(s) * 1e3:.2f}", f"{np.median(s / base):.2f}"] for n, s in seconds.items()]
    print(table(["what", "ms, median", "× one SAC update, median of pairs"], rows), "\n")

    local = with_synthesizer(
        buffer, GaussianProcess(Form(ard=True, per_target=True), schedule=Schedule("local", Fit(10)))
    )
    seconds = interleaved({"update": sac_update(buffer), "local": local}, 5)
    ratio = np.median(seconds["local"] / seconds["update"])
    print(f"sample(256) with a 10-epoch fit per neighborhood: {np.median(seconds['local']):.2f} s, {ratio:.0f} updates")
    refit = GaussianProcess(Form(ard=True, per_target=True), schedule=Schedule(every=1))
    seconds = interleaved({"refit": with_synthesizer(buffer, refit)}, 5)
    print(
        f"a batch with a refit of shared hyperparameters: {np.median(seconds['refit']):.2f} s, once in 1,000 batches\n"
    )

    g = torch.Generator().manual_seed(0)
    x, y, queries = (torch.randn(256, m, d, generator=g) for m, d in ((11, 23), (11, 18), (1, 23)))
    contenders = {}
    for per_target in (False, True):
        name = "a kernel per target" if per_target else "shared kernel"
        contenders[f"directly, {name}"] = directly(x, y, queries, per_target)
        contenders[f"GPyTorch, {name}"] = through_gpytorch(x, y, queries, per_target)
    seconds = interleaved(contenders, max(5, arguments.repeats // 4))
    rows = [[n, f"{np.median(s) * 1e3:.2f}"] for n, s in seconds.items()]
    print(table(["posterior of 256 neighborhoods × 18 targets", "ms, median"], rows), "\n")

    rows = []
    for per_target in (False, True):
        found = seconds_per_epoch(x[:64], y[:64], per_target)
        kernel = "a kernel per target" if per_target else "shared kernel"
        faster = [f"{reported / found:.0f}" for reported in ORIGINAL.values()]
        rows.append([kernel, f"{found * 1e3:.1f}", *faster])
    print(
        table(
            ["an epoch of 64 local fits", "ms, median", "× faster than 1.5 s (fp32)", "× faster than 9 s (fp64)"], rows
        )
    )


if __name__ == "__main__":
    main()
