"""Soft actor-critic with NMER in one file, without Ray: our buffer, our networks and our update, a loop of your own.

    python examples/without_rllib/sac_nmer.py --env-id HalfCheetah-v5 --total-steps 100000

In the manner of CleanRL. `ddqn_per.py` also writes out the networks and the update.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, fields

import gymnasium as gym
import numpy as np
import torch

from interreplay import Transitions
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from replay_buffers import NMER


@dataclass
class Args:
    """What can be set: each is a flag."""

    env_id: str = "Pendulum-v1"
    total_steps: int = 10_000
    learning_starts: int = 500
    batch_size: int = 256
    buffer_size: int = 1_000_000
    gamma: float = 0.99
    neighbors: int = 10
    hiddens: int = 256
    lr: float = 1e-3
    tau: float = 0.02
    evaluate_every: int = 2_000
    seed: int = 0


def main(args: Args) -> list[float]:
    """Train; return the mean returns of the evaluations."""
    torch.set_num_threads(1)
    env = make_env(args.env_id)
    env.action_space.seed(args.seed)
    rng = torch.Generator().manual_seed(args.seed)
    inputs, actions = int(np.prod(env.observation_space.shape)), int(np.prod(env.action_space.shape))

    torch.manual_seed(args.seed)
    networks = SACNetworks(inputs, actions, (args.hiddens, args.hiddens))
    update = SACUpdate(networks, actor_lr=args.lr, critic_lr=args.lr, alpha_lr=args.lr, tau=args.tau)
    buffer = NMER(capacity=args.buffer_size, k=args.neighbors, gamma=args.gamma, seed=args.seed)
    print(buffer)

    returns, began, episode, result = [], time.time(), 0, None
    obs, _ = env.reset(seed=args.seed)
    for step in range(1, args.total_steps + 1):
        if step <= args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                seen = torch.as_tensor(obs, dtype=torch.float32).flatten().unsqueeze(0)
                action = networks.actor.sample(seen, rng)[0].numpy().reshape(env.action_space.shape)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        # The true next observation: the target bootstraps from it after a time limit, not after a termination.
        buffer.add(row(obs, action, reward, next_obs, terminated, truncated, episode))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            episode += 1

        if step > args.learning_starts:
            sample = buffer.sample(args.batch_size)  # rows, a share of them blended with a near neighbor
            result = update.update(sample, rng)
            buffer.update(sample, result.errors)  # priorities, where the selector has any

        if step % args.evaluate_every == 0 or step == args.total_steps:
            returns.append(evaluate(networks, args))
            metrics = {} if result is None else dict(zip(update.metrics, result.metrics.tolist(), strict=True))
            shown = ", ".join(f"{name} {metrics[name]:.3g}" for name in ("critic_loss", "alpha") if name in metrics)
            print(f"{step:,} steps, {step / (time.time() - began):.0f} steps/s: return {returns[-1]:.1f}, {shown}")
    env.close()
    return returns


def make_env(env_id: str) -> gym.Env:
    """Return an environment with actions within ±1, as the policy's are."""
    return gym.wrappers.RescaleAction(gym.make(env_id), np.float32(-1), np.float32(1))


def row(obs, action, reward, next_obs, terminated, truncated, episode) -> Transitions:
    """Return one step as columns of length 1."""
    return Transitions(
        obs=np.asarray(obs, np.float32)[None],
        actions=np.asarray(action, np.float32)[None],
        rewards=np.array([reward], np.float32),
        next_obs=np.asarray(next_obs, np.float32)[None],
        terminated=np.array([terminated]),
        truncated=np.array([truncated]),
        episode=np.array([episode]),
    )


@torch.no_grad()
def evaluate(networks: SACNetworks, args: Args, episodes: int = 5) -> float:
    """Return the mean return of the policy's best actions."""
    env = make_env(args.env_id)
    total = 0.0
    for number in range(episodes):
        obs, _ = env.reset(seed=1_000 + number)
        over = False
        while not over:
            seen = torch.as_tensor(obs, dtype=torch.float32).flatten().unsqueeze(0)
            action = networks.actor.act(seen)[0].numpy().reshape(env.action_space.shape)
            obs, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for field in fields(Args):
        flag = f"--{field.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(field.default), default=field.default, help=f"(default: {field.default})")
    main(Args(**vars(parser.parse_args())))
