"""Buffers, updates and trained policies work where Ray is not installed."""

import subprocess
import sys

import pytest

from tests.rllib.small_runs import config

PROGRAM = """
import sys


class WithoutRay:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")


sys.meta_path.insert(0, WithoutRay())

import numpy as np
import torch

import interreplay
import replay_buffers
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate

n = 200
rng = np.random.default_rng(0)
ended = np.arange(1, n + 1) % 20 == 0
rows = interreplay.Transitions(
    obs=rng.normal(size=(n, 3)).astype(np.float32),
    actions=rng.uniform(-1, 1, (n, 1)).astype(np.float32),
    rewards=rng.normal(size=n).astype(np.float32),
    next_obs=rng.normal(size=(n, 3)).astype(np.float32),
    terminated=ended,
    truncated=np.zeros(n, bool),
    episode=np.arange(n) // 20,
)
update = SACUpdate(SACNetworks(3, 1, (16, 16)))
for name in ("Uniform", "PER", "CER", "NMER", "NaiveMixup", "KNNOutcome", "LCER", "BIER", "Noise", "LAP", "ERE"):
    buffer = getattr(replay_buffers, name)(capacity=n, seed=0)
    buffer.add(rows)
    sample = buffer.sample(32)
    result = update.update(sample, torch.Generator().manual_seed(0))
    buffer.update(sample, result.errors)
    assert result.errors.shape == (32,) and bool(torch.isfinite(result.metrics).all()), name

policy = interreplay.load_policy(sys.argv[1])
obs = policy.observation_space.sample()
assert policy.action_space.contains(policy.act(obs))

try:
    import interreplay.rllib
except ModuleNotFoundError as error:
    assert error.name == "ray"
else:
    raise AssertionError("Ray is there")
"""


@pytest.mark.slow  # tests/test_layout.py shows which files import Ray
def test_rows_batches_updates_and_policies_in_a_process_without_ray(cluster, tmp_path):
    algorithm = config("InvertedPendulum-v5").build_algo()
    algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.stop()
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
