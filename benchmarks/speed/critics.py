"""Cost of critics and update ratios: SAC's updates with each option.

    python -m benchmarks.speed.critics [--repeats 100] [--cpu-time]

HalfCheetah's shapes, batch 256, two layers of 256, float32, one thread, no environment and no buffer. One line is one
round of updates on a fixed batch. The plain DroQ follows its authors' program (Hiraoka et al. 2022): one module, one
loss, one optimizer and one loop over targets per critic, dropout by `nn.Dropout`, one policy update per round.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import interleaved, millis_table, single_thread
from benchmarks.updates import ACTIONS, OBS, TAU, ours, transitions

Contenders = dict[str, Callable[[], object]]
ROUND = 20
NEVER = 10**9
DROQ: dict[str, Any] = {"critic_layer_norm": True, "critic_dropout": 0.01}
REDQ: dict[str, Any] = {"n_critics": 10, "target_subset": 2, "actor_target": "mean"}


def times(count: int, update: Callable[[], object]) -> Callable[[], object]:
    """Return a function that makes `count` updates."""

    def run() -> None:
        for _ in range(count):
            update()

    return run


def comparisons() -> dict[str, Contenders]:
    """Return the contenders of each table by its title; the first one is the baseline."""
    alone: dict[str, Any] = {"policy_delay": NEVER}
    waiting: dict[str, Any] = {"policy_delay": ROUND}
    return {
        f"{ROUND} updates of the critics alone": {
            "two critics": times(ROUND, ours("SAC", **alone)),
            "two, layer normalization": times(ROUND, ours("SAC", **alone, critic_layer_norm=True)),
            "two, dropout .01": times(ROUND, ours("SAC", **alone, critic_dropout=0.01)),
            "two, both": times(ROUND, ours("SAC", **alone, **DROQ)),
            "two, both, dropout .1": times(ROUND, ours("SAC", **alone, **DROQ | {"critic_dropout": 0.1})),
            "ten, targets of two (REDQ)": times(ROUND, ours("SAC", **alone, **REDQ)),
        },
        f"a round of {ROUND} updates": {
            "SAC, the policy each time": times(ROUND, ours("SAC")),
            f"policy_delay {ROUND}": times(ROUND, ours("SAC", **waiting)),
            f"policy_delay {ROUND}, REDQ's ten critics": times(ROUND, ours("SAC", **waiting, **REDQ)),
        },
        f"a round of DroQ, {ROUND} updates": {
            "ours": times(ROUND, ours("SAC", **waiting, **DROQ, actor_target="mean")),
            "plain PyTorch, as its authors have it": PlainDroQ(),
        },
    }


class PlainDroQ:
    """A round of DroQ in plain PyTorch."""

    def __init__(self) -> None:
        import torch
        from torch import nn

        def critic() -> nn.Module:
            hidden = [[nn.Linear(n, 256), nn.Dropout(0.01), nn.LayerNorm(256), nn.ReLU()] for n in (OBS + ACTIONS, 256)]
            return nn.Sequential(*hidden[0], *hidden[1], nn.Linear(256, 1))

        layers = nn.Linear(OBS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2 * ACTIONS)
        self.policy = nn.Sequential(*layers)
        self.critics = [critic() for _ in range(2)]
        self.targets = [copy.deepcopy(each).requires_grad_(False) for each in self.critics]
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.policy_adam = torch.optim.Adam(self.policy.parameters(), lr=3e-4)
        self.critic_adams = [torch.optim.Adam(each.parameters(), lr=3e-4) for each in self.critics]
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=3e-4)
        self.batch = transitions()

    def sample(self, obs: Any) -> tuple[Any, Any]:
        import torch

        mean, log_std = self.policy(obs).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        raw = normal.rsample()
        actions = torch.tanh(raw)
        return actions, (normal.log_prob(raw) - torch.log(1 - actions.pow(2) + 1e-6)).sum(dim=1, keepdim=True)

    def step(self, adam: Any, loss: Any) -> None:
        adam.zero_grad()
        loss.backward()
        adam.step()

    def __call__(self) -> None:
        import torch

        rows = self.batch
        for _ in range(ROUND):
            with torch.no_grad():
                actions, log_probs = self.sample(rows.next_obs)
                following = torch.cat([rows.next_obs, actions], dim=1)
                value = torch.min(*(each(following) for each in self.targets)) - self.log_alpha.exp() * log_probs
                target = rows.rewards.unsqueeze(1) + rows.discounts.unsqueeze(1) * value
            state_actions = torch.cat([rows.obs, rows.actions], dim=1)
            losses = [torch.mean((each(state_actions) - target).pow(2)) for each in self.critics]
            for adam, loss in zip(self.critic_adams, losses, strict=True):
                self.step(adam, loss)
            for of_target, of_critic in zip(self.targets, self.critics, strict=True):
                for t, s in zip(of_target.parameters(), of_critic.parameters(), strict=True):
                    t.data.copy_(t.data * (1.0 - TAU) + s.data * TAU)
        actions, log_probs = self.sample(rows.obs)
        value = 0.5 * sum(each(torch.cat([rows.obs, actions], dim=1)) for each in self.critics)
        self.step(self.policy_adam, torch.mean(self.log_alpha.exp().detach() * log_probs - value))
        self.step(self.alpha_adam, -torch.mean(self.log_alpha * (log_probs - ACTIONS).detach()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument(
        "--cpu-time", action="store_true", help="measure the processor time of this process, for busy machines"
    )
    arguments = parser.parse_args()
    single_thread()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    for title, contenders in comparisons().items():
        seconds = interleaved(contenders, arguments.repeats, warm_up=3, clock=clock)
        print(millis_table(title, "the first", seconds), end="\n\n")


if __name__ == "__main__":
    main()
