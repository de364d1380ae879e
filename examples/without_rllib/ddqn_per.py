"""Double DQN in plain PyTorch, with our buffer alone: the networks, the target and the loss are all in this file.

    python examples/without_rllib/ddqn_per.py --buffer PER

``--buffer`` takes the methods of the catalog except `HER`, which needs goals, `LaBER` and `ReLo`, which need losses
per row, and `Elite`, which needs the policy. `NMER` blends observations among rows of one action.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, fields

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import replay_buffers
from interreplay import Transitions


@dataclass
class Args:
    """What can be set: each is a flag."""

    env_id: str = "CartPole-v1"
    buffer: str = "PER"
    total_steps: int = 20_000
    learning_starts: int = 500
    train_every: int = 2
    batch_size: int = 64
    buffer_size: int = 50_000
    gamma: float = 0.99
    n_step: int = 3
    lr: float = 5e-4
    target_every: int = 200
    epsilon_steps: int = 5_000
    evaluate_every: int = 4_000
    seed: int = 0


def main(args: Args) -> list[float]:
    """Train; return the mean returns of the evaluations."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = gym.make(args.env_id)
    sizes = int(np.prod(env.observation_space.shape)), int(env.action_space.n)
    network, target = q_network(*sizes), q_network(*sizes)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=args.lr)
    method = getattr(replay_buffers, args.buffer)
    buffer = method(capacity=args.buffer_size, n_step=args.n_step, gamma=args.gamma, seed=args.seed)
    print(buffer)

    returns, began, episode = [], time.time(), 0
    obs, _ = env.reset(seed=args.seed)
    for step in range(1, args.total_steps + 1):
        epsilon = max(0.05, 1.0 - step / args.epsilon_steps)
        explore = step <= args.learning_starts or rng.random() < epsilon
        action = int(rng.integers(sizes[1])) if explore else greedy(network, obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(
            Transitions(
                obs=obs[None],
                actions=np.array([action]),
                rewards=np.array([reward], np.float32),
                next_obs=next_obs[None],
                terminated=np.array([terminated]),
                truncated=np.array([truncated]),
                episode=np.array([episode]),
            )
        )
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            episode += 1

        if step > args.learning_starts and step % args.train_every == 0:
            buffer.anneal(step / args.total_steps)  # PER's β goes to 1 over the run
            sample = buffer.sample(args.batch_size)
            rows = sample.transitions
            with torch.no_grad():
                best = network(rows.next_obs).argmax(1, keepdim=True)
                # r are sums over n steps; discounts are γ^n, γ^m where a time limit left m steps, 0 where the end came.
                aim = rows.rewards + rows.discounts * target(rows.next_obs).gather(1, best).squeeze(1)
            errors = network(rows.obs).gather(1, rows.actions.unsqueeze(1)).squeeze(1) - aim
            loss = (
                sample.weights * nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
            ).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            buffer.update(sample, errors.detach())  # new priorities, where the method keeps any
        if step % args.target_every == 0:
            target.load_state_dict(network.state_dict())

        if step % args.evaluate_every == 0 or step == args.total_steps:
            returns.append(evaluate(network, args))
            print(f"{step:,} steps, {step / (time.time() - began):.0f} steps/s: return {returns[-1]:.1f}")
    env.close()
    return returns


def q_network(inputs: int, actions: int) -> nn.Module:
    """Return a network from observations ``(n, inputs)`` to values ``(n, actions)``."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, actions)
    )


@torch.no_grad()
def greedy(network: nn.Module, obs: np.ndarray) -> int:
    """Return the best action in one observation."""
    return int(network(torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0)).argmax())


def evaluate(network: nn.Module, args: Args, episodes: int = 5) -> float:
    """Return the mean return of the best actions."""
    env, total = gym.make(args.env_id), 0.0
    for number in range(episodes):
        obs, _ = env.reset(seed=1_000 + number)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(greedy(network, obs))
            total, over = total + float(reward), terminated or truncated
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for field in fields(Args):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(field.default), default=field.default, help=f"(default: {field.default})")
    main(Args(**vars(parser.parse_args())))
