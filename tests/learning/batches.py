"""Random batches in float64 and updates from them, for the tests of all updates."""

import torch

from interreplay.learning.update import Batch
from interreplay.transitions import Transitions

N, OBS, ACTIONS, GAMMA = 32, 5, 3, 0.98


def rng(seed=7):
    return torch.Generator().manual_seed(seed)


def batch(seed=1, discrete=False):
    g = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
    terminated = torch.rand(N, generator=g) < 0.3
    return Transitions(
        obs=normal(N, OBS),
        actions=torch.randint(0, ACTIONS, (N,), generator=g) if discrete else torch.tanh(normal(N, ACTIONS)),
        rewards=normal(N),
        next_obs=normal(N, OBS),
        terminated=terminated,
        truncated=torch.zeros(N, dtype=torch.bool),
        discounts=GAMMA * (~terminated).double(),
    )


def learn(update, rows, weights, rng, row_weights=None):
    """Make one update and return its TD errors and metrics."""
    result = update.update(Batch(rows, weights, row_weights), rng)
    return result.errors, result.metrics
