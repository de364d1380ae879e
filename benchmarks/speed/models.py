"""Fitting a model to HalfCheetah compared with a plain PyTorch loop of the same ensemble; rollouts; batches of a mix.

    python -m benchmarks.speed.models [--rows 10000] [--epochs 4] [--repeats 3]

Ensemble of 7 with 4×200 SiLU units, random behavior, batch 256, a fifth held out. One thread, contenders in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table
from benchmarks.training import random_columns

MEMBERS = 7
HIDDEN = 200
BATCH = 256


def standardized(rows: Any) -> tuple[Any, Any]:
    """Return inputs and targets of a model, standardized."""
    import torch

    from interreplay.experience.learned_models.dynamics import Scale

    inputs = torch.cat([rows.obs, rows.actions], 1)
    targets = torch.cat([rows.rewards.unsqueeze(1), rows.next_obs - rows.obs], 1)
    return Scale.fit(inputs).apply(inputs), Scale.fit(targets).apply(targets)


def ours(inputs: Any, targets: Any, held: Any, epochs: int, model: str, dtype: Any = None) -> Callable[[], Any]:
    """Return a function that fits new networks for `epochs`; products between hidden layers have the type `dtype`."""
    from interreplay.experience.learned_models.ensembles import FitSettings, Networks, fit

    settings = FitSettings(BATCH, patience=epochs + 1, max_epochs=epochs)
    bounds, dropout = (targets.shape[1], 0.0) if model == "stochastic" else (0, 0.05)

    def run() -> Any:
        rng = np.random.default_rng(0)
        sizes = [inputs.shape[1], *[HIDDEN] * 4, targets.shape[1] + bounds]
        networks = Networks(MEMBERS, sizes, rng, bounds, dropout, matrix_dtype=dtype)
        return fit(networks, inputs, targets, held, settings, rng).errors

    return run


def plain_network(inputs: int, outputs: int, model: str, tidy: bool) -> Any:
    """Return the ensemble in plain PyTorch, with stacked layers and autograd; `tidy` uses PyTorch's SiLU."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, wide: int, out: int):
            super().__init__()
            start = nn.init.trunc_normal_(torch.empty(MEMBERS, wide, out), 0.0, 1.0, -2.0, 2.0)
            self.weight = nn.Parameter(start / (2 * wide**0.5))
            self.bias = nn.Parameter(torch.zeros(MEMBERS, 1, out))

        def forward(self, rows: Any) -> Any:
            return torch.bmm(rows, self.weight) + self.bias

    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            last = outputs * (2 if model == "stochastic" else 1)
            widths = [inputs, *[HIDDEN] * 4, last]
            self.layers = nn.ModuleList(Layer(*pair) for pair in zip(widths, widths[1:], strict=False))
            self.highest, self.lowest = (nn.Parameter(torch.full((1, 1, outputs), v)) for v in (0.5, -10.0))
            self.dropout = nn.Dropout(0.05 if model == "deterministic" else 0.0)

        def forward(self, rows: Any) -> Any:
            for number, layer in enumerate(self.layers[:-1]):
                rows = layer(rows)
                rows = nn.functional.silu(rows) if tidy else rows * torch.sigmoid(rows)
                rows = self.dropout(rows) if number and model == "deterministic" else rows
            return self.layers[-1](rows)

    return Ensemble()


def plain_loss(network: Any, rows: Any, targets: Any, model: str) -> Any:
    """Return the loss of all members, weight decay included."""
    from torch.nn.functional import softplus

    outputs = network(rows)
    if model == "stochastic":
        mean, raw = outputs.chunk(2, dim=-1)
        values = network.highest - softplus(network.highest - raw)
        values = network.lowest + softplus(values - network.lowest)
        loss = ((mean - targets) ** 2 * (-values).exp() + values).mean(dim=(1, 2)).sum()
        loss = loss + 0.01 * (network.highest - network.lowest).sum()
    else:
        loss = ((outputs - targets) ** 2).mean(dim=(1, 2)).sum()
    decays = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
    return loss + sum(d * (layer.weight**2).sum() / 2 for d, layer in zip(decays, network.layers, strict=True))


def plain(inputs: Any, targets: Any, held: Any, epochs: int, model: str, tidy: bool) -> Callable[[], Any]:
    """Return a function that makes the same fit in a plain PyTorch loop.

    Without `tidy`, it follows the code of LCER and of MBPO's ports to PyTorch: rows are float64 arrays, each batch
    becomes a tensor, and SiLU is a product. With `tidy`, rows are a tensor, and SiLU is PyTorch's.
    """
    import torch

    learned = torch.ones(len(inputs), dtype=torch.bool)
    learned[held] = False
    inputs_learned = inputs[learned]
    targets_learned = targets[learned]
    width = targets.shape[1]
    arrays = inputs_learned.double().numpy(), targets_learned.double().numpy()

    def batch(which: Any) -> Any:
        if tidy:
            return inputs_learned[which], targets_learned[which]
        return tuple(torch.from_numpy(rows[which.numpy()]).float() for rows in arrays)

    def run() -> Any:
        torch.manual_seed(0)
        network = plain_network(inputs.shape[1], width, model, tidy)
        adam = torch.optim.Adam(network.parameters(), lr=1e-3)
        best = np.full(MEMBERS, np.inf)
        for _ in range(epochs):
            orders = torch.stack([torch.randperm(len(inputs_learned)) for _ in range(MEMBERS)])
            for start in range(0, len(inputs_learned), BATCH):
                which = orders[:, start : start + BATCH]
                adam.zero_grad()
                given, expected = batch(which)
                plain_loss(network, given, expected, model).backward()
                adam.step()
            with torch.no_grad():
                network.eval()
                outputs = network(inputs[held].expand(MEMBERS, -1, -1))[..., :width]
                network.train()
            best = np.minimum(best, ((outputs - targets[held]) ** 2).mean(dim=(1, 2)).numpy())
        return best

    return run


def fits(rows: Any, epochs: int, repeats: int) -> str:
    """Return a table of the processor time per epoch."""
    import torch

    from interreplay.experience.learned_models.ensembles import split

    inputs, targets = standardized(rows)
    held = split(len(inputs), 0.2, np.random.default_rng(0))[1]
    lines = []
    for model in ("stochastic", "deterministic"):
        contenders = {
            "ours": ours(inputs, targets, held, epochs, model),
            "ours, bfloat16": ours(inputs, targets, held, epochs, model, torch.bfloat16),
            "the original's loop": plain(inputs, targets, held, epochs, model, tidy=False),
            "the same, tidied": plain(inputs, targets, held, epochs, model, tidy=True),
        }
        errors = {name: float(np.mean(run())) for name, run in contenders.items()}
        seconds = interleaved(contenders, repeats, warm_up=0, clock=time.process_time)
        for name, taken in seconds.items():
            ratio = np.median(taken / seconds["ours"])
            lines.append([model, name, f"{np.mean(taken) / epochs:.2f}", f"{errors[name]:.4f}", f"{ratio:.2f}"])
    header = [f"model, {len(inputs):,} rows", "fit", "s per epoch, mean", "error held out", "× ours, median of pairs"]
    return table(header, lines)


def source_with_policy(rows: Any, **arguments: Any) -> Any:
    """Return a `ModelBased` of these rows for the policy of a new SAC with networks of 2×256."""
    from interreplay import ModelBased
    from interreplay.learning.actor_critic.sac import SACNetworks
    from interreplay.part import Context

    actor = SACNetworks(rows.obs.shape[1], rows.actions.shape[1]).actor
    made = ModelBased(seed=0, max_epochs=1, **arguments)
    made.connect(Context(lambda obs: actor.record(actor.output(obs))["behavior"], True, environment="HalfCheetah-v5"))
    made.add(rows)
    return made


def imagined(rows: Any, repeats: int) -> str:
    """Return a table of 10⁵ one-step rollouts, including storing them, compared with SAC's updates."""
    import torch

    from benchmarks.speed.bier import sac_update

    lines = []
    for model in ("stochastic", "deterministic"):
        with torch.no_grad():
            source = source_with_policy(rows, model=model, real_share=0.05)
            source.sample(BATCH)
        taken = []
        for _ in range(repeats):
            start = time.process_time()
            before = source.virtual.storage.written
            with torch.no_grad():
                for step in source.rollouts():
                    source.virtual.add(step)
            taken.append(time.process_time() - start)
            assert source.virtual.storage.written - before == 100_000
        lines.append([f"10⁵ one-step rollouts and their storing, {model}", f"{np.median(taken):.2f} s"])
    update = interleaved({"update": sac_update(source.real)}, 50, clock=time.process_time)["update"]
    lines.append(["one update of SAC", f"{np.median(update) * 1e3:.1f} ms"])
    draws = {
        "mix": lambda: source.sample(BATCH),
        "own": lambda: (source.real.sample(13), source.virtual.sample(BATCH - 13)),
    }
    seconds = {name: np.median(each) for name, each in interleaved(draws, 300, clock=time.process_time).items()}
    lines.append(["a batch of 256 from both sources", f"{seconds['mix'] * 1e6:.0f} µs"])
    lines.append(["the draws of both alone", f"{seconds['own'] * 1e6:.0f} µs"])
    return table(["what", "processor time, median"], lines)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="stored rows of HalfCheetah")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of each fit")
    parser.add_argument("--repeats", type=int, default=3, help="timed fits of each contender, and rounds of rollouts")
    given = parser.parse_args()
    single_thread()
    import torch

    from interreplay import Transitions

    torch.set_flush_denormal(True)
    rows = Transitions(**random_columns("HalfCheetah-v5", given.rows))
    print(fits(rows, given.epochs, given.repeats), "\n", sep="\n")
    print(imagined(rows, given.repeats))


if __name__ == "__main__":
    main()
