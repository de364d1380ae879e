"""Milliseconds of one update of SAC and TD3: ours compared with plain PyTorch.

    python -m benchmarks.updates [--compile] [--repeats 100]
    python -m benchmarks.updates --against ../another_checkout [--cpu-time]

HalfCheetah's shapes, batch 256, two layers of 256, one thread, no environment and no buffer. Plain PyTorch's SAC is
the straightforward implementation: networks of `nn.Linear`, losses differentiated by autograd, `torch.optim.Adam`.
`--compile` also measures it with `torch.compile`, which requires a C++ compiler and half a minute. `--against` compares
the updates of this and another checkout, in one process and in turn.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, millis_table, single_thread

OBS = 17
ACTIONS = 6
BATCH = 256
GAMMA = 0.99
TAU = 0.005


def transitions() -> Any:
    """Return random transitions."""
    import torch

    from interreplay import Transitions

    g = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=g)

    none = torch.zeros(BATCH, dtype=torch.bool)
    return Transitions(
        obs=normal(BATCH, OBS),
        actions=normal(BATCH, ACTIONS).tanh(),
        rewards=normal(BATCH),
        next_obs=normal(BATCH, OBS),
        terminated=none,
        truncated=none,
        discounts=torch.full((BATCH,), GAMMA),
    )


def ours(trainer: str, matrix_dtype: str = "float32", **settings: Any) -> Callable[[], object]:
    """Return a function that makes one update of our algorithm.

    Args:
        trainer: Name of the algorithm, SAC or TD3.
        matrix_dtype: Type of the products between hidden layers.
        **settings: Settings of the algorithm by name.
    """
    import torch

    names = {"n_critics": "critics", "critic_layer_norm": "layer_norm", "critic_dropout": "dropout"}
    shape = {argument: settings[name] for name, argument in names.items() if name in settings}
    module = importlib.import_module(f"interreplay.learning.actor_critic.{trainer.lower()}")
    if trainer == "SAC":
        networks = module.SACNetworks(OBS, ACTIONS, **shape)
        settings = settings | {"target_entropy": -ACTIONS}
    else:
        networks = module.DeterministicNetworks(OBS, ACTIONS, **shape)
    for layers in networks.modules():
        if matrix_dtype != "float32" and hasattr(layers, "matrix_dtype"):
            layers.matrix_dtype = getattr(torch, matrix_dtype)
    return called(getattr(module, f"{trainer}Update")(networks, **settings))


def called(update: Any) -> Callable[[], object]:
    """Return a function that updates from a fixed batch."""
    import torch

    from interreplay.learning.update import Batch

    batch = Batch(transitions(), torch.ones(BATCH))
    rng = torch.Generator().manual_seed(0)
    return lambda: update.update(batch, rng)


def load_ours(checkout: str, trainer: str) -> Callable[[], object]:
    """Return the update of another checkout, which is imported in addition to this one."""
    mine = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "interreplay"}
    sys.path.insert(0, checkout)
    try:
        return ours(trainer)
    finally:
        sys.path.remove(checkout)
        for name in [name for name in sys.modules if name.partition(".")[0] == "interreplay"]:
            del sys.modules[name]
        sys.modules.update(mine)


class Plain:
    """SAC in plain PyTorch; `wrap` is applied to its two loss functions."""

    def __init__(self, wrap: Callable[[Any], Any]):
        import torch
        from torch import nn

        def network(inputs: int, outputs: int) -> nn.Module:
            layers = nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs)
            return nn.Sequential(*layers)

        self.actor = network(OBS, 2 * ACTIONS)
        self.critics = nn.ModuleList(network(OBS + ACTIONS, 1) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(()))
        groups = self.actor.parameters(), self.critics.parameters(), [self.log_alpha]
        self.adams = [torch.optim.Adam(parameters, lr=3e-4) for parameters in groups]
        self.critic_loss = wrap(self._critic_loss)
        self.actor_loss = wrap(self._actor_loss)
        self.batch = transitions()

    def sample(self, obs: Any, noise: Any) -> tuple[Any, Any]:
        from torch.nn.functional import softplus

        mean, log_std = self.actor(obs).chunk(2, dim=-1)
        log_std = log_std.clamp(-20, 2)
        raw = mean + log_std.exp() * noise
        squash = 2 * (np.log(2) - raw - softplus(-2 * raw))
        return raw.tanh(), (-0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - squash).sum(-1)

    def values(self, critics: Any, obs: Any, actions: Any) -> Any:
        import torch

        state_actions = torch.cat([obs, actions], dim=1)
        return torch.stack([critic(state_actions).squeeze(-1) for critic in critics])

    def _critic_loss(self, noise: Any, alpha: Any) -> Any:
        import torch

        b = self.batch
        with torch.no_grad():
            actions, log_prob = self.sample(b.next_obs, noise)
            value = self.values(self.targets, b.next_obs, actions).amin(0) - alpha * log_prob
            target = b.rewards + b.discounts * value
        return 0.5 * (self.values(self.critics, b.obs, b.actions) - target).square().mean(-1).sum()

    def _actor_loss(self, noise: Any, alpha: Any) -> tuple[Any, Any]:
        actions, log_prob = self.sample(self.batch.obs, noise)
        return (alpha * log_prob - self.values(self.critics, self.batch.obs, actions).amin(0)).mean(), log_prob

    def __call__(self) -> None:
        import torch

        alpha = self.log_alpha.detach().exp()
        noise = torch.randn(2, BATCH, ACTIONS)
        self.step(self.critic_loss(noise[0], alpha), 1)
        self.critics.requires_grad_(False)
        loss, log_prob = self.actor_loss(noise[1], alpha)
        self.step(loss, 0)
        self.critics.requires_grad_(True)
        self.step(-(self.log_alpha * (log_prob.detach() - ACTIONS)).mean(), 2)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.targets.parameters()), list(self.critics.parameters()), TAU)

    def step(self, loss: Any, which: int) -> None:
        self.adams[which].zero_grad()
        loss.backward()
        self.adams[which].step()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="add torch.compile")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--against", metavar="CHECKOUT", help="also measure the updates of another checkout")
    parser.add_argument(
        "--cpu-time", action="store_true", help="measure the processor time of this process, for busy machines"
    )
    arguments = parser.parse_args()
    single_thread()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    import torch

    a = torch.randn(256, 256)
    for trainer in ("SAC", "TD3"):
        contenders: dict[str, Callable[[], object]] = {f"{trainer}, ours": ours(trainer)}
        if arguments.against:
            contenders[f"{trainer}, ours in {arguments.against}"] = load_ours(arguments.against, trainer)
        else:
            contenders[f"{trainer}, ours, bfloat16 products"] = ours(trainer, matrix_dtype="bfloat16")
            if trainer == "SAC":
                contenders["SAC, plain PyTorch"] = Plain(lambda loss: loss)
            if trainer == "SAC" and arguments.compile:
                contenders["SAC, plain PyTorch, torch.compile"] = Plain(torch.compile)
            contenders["one 256×256×256 product"] = lambda: torch.mm(a, a)
        seconds = interleaved(contenders, arguments.repeats, warm_up=5, clock=clock)
        print(millis_table("one update", "ours", seconds), end="\n\n")


if __name__ == "__main__":
    main()
