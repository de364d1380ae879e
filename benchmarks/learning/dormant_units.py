"""Print the share of dormant units in a run's networks: ``python -m benchmarks.learning.dormant_units RUN ...``.

A hidden unit is dormant if its mean activation is at most `THRESHOLD` of the mean over its layer (Sokar et al. 2023,
arXiv:2302.12902). Networks with many dormant units represent and learn less.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import existing, single_thread, table

THRESHOLD = 0.025
ROWS = 5_000
"""Number of stored transitions at which units are measured, drawn uniformly."""


def hidden_activations(networks: Any, inputs: Tensor) -> list[Tensor]:
    """Return the activations ``(m, n, width)`` of each hidden layer of `networks`, a `BatchedMLP` of m networks."""
    from interreplay.learning.networks.batched_layers import ForwardPass, LayerViews, PassSettings

    if networks.pass_class is not ForwardPass:
        raise SystemExit("residual networks have no plain hidden layers; expected --critic_blocks 0 --actor_blocks 0")
    views = LayerViews(networks.parts)
    settings = PassSettings(networks.pass_class, activation=networks.activation)
    forward_pass = networks.pass_class(inputs, views, settings)
    by_network = []
    for number, member in enumerate(views.members):
        layers: list[Tensor] = []
        forward_pass.run(number, member, inputs, layers)
        by_network.append(layers[1:])
    return [torch.stack(layer) for layer in zip(*by_network, strict=True)]


def dormant_share(activations: Tensor) -> float:
    """Return the share of dormant units, given activations ``(m, n, width)`` of m networks."""
    means = activations.abs().mean(dim=1)
    return float((means <= THRESHOLD * means.mean(dim=1, keepdim=True)).float().mean())


@torch.no_grad()
def shares(algorithm: Any) -> list[tuple[str, list[float]]]:
    """Return the dormant share of each hidden layer of the actor and of the critics."""
    storage = algorithm.replay_buffer.storage
    slots = torch.randint(len(storage), (ROWS,), generator=torch.Generator().manual_seed(0))
    rows = storage[slots]
    module = algorithm.learner.single_module
    obs = module.encode(rows.obs)
    inputs = {"actor": obs, "critics": torch.cat([obs, rows.actions], dim=1)}
    networks = {"actor": module.nets.actor.body, "critics": module.nets.critics}
    return [(name, list(map(dormant_share, hidden_activations(networks[name], inputs[name])))) for name in networks]


def percent(found: list[float]) -> str:
    """Return shares as text."""
    return ", ".join(f"{share:.0%}" for share in found)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the shares in each run's newest checkpoint."""
    from interreplay.experiments.evaluation.play import build_algorithm, read_config, restore
    from interreplay.runs.checkpoints import find

    name = "python -m benchmarks.learning.dormant_units"
    parser = argparse.ArgumentParser(prog=name, description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=existing, nargs="+", metavar="RUN", help="folder of a run of SAC or TD3")
    args = parser.parse_args(argv)
    single_thread()
    lines = []
    for run in args.runs:
        checkpoint = find(run)[0]
        algorithm: Any = build_algorithm(read_config(checkpoint))
        restore(algorithm, checkpoint)
        trained = shares(algorithm)
        algorithm.learner.single_module.nets.reset(torch.Generator().manual_seed(0))
        for (network, found), (_, first) in zip(trained, shares(algorithm), strict=True):
            lines.append([run.name, f"{algorithm.env_steps:,}", network, percent(found), percent(first)])
        algorithm.stop()
    heads = ["run", "env steps", "networks", "dormant units by hidden layer", "with initial weights"]
    print(table(heads, lines))


if __name__ == "__main__":
    main()
