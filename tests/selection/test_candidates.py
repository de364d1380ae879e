"""Attentive and elite selection compared with naive sorts of the candidates."""

import warnings

import numpy as np
import pytest
import torch
from builders import make, require_same_samples
from scipy.spatial.distance import cosine as scipy_cosine

from interreplay import ReplayBuffer
from interreplay.errors import PartError
from interreplay.part import Context
from interreplay.selection.distance import cosine, kl, lp_norm
from replay_buffers import Attentive, Elite, Uniform

MATRIX = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))


def policy(obs: torch.Tensor) -> torch.Tensor:
    return torch.tanh(obs @ MATRIX)


def candidates(buffer: ReplayBuffer, count: int) -> np.ndarray:
    """The candidates of the next batch."""
    rng = np.random.default_rng(0)
    rng.bit_generator.state = buffer.rng.bit_generator.state
    return rng.integers(0, len(buffer), count)


def filled(buffer: ReplayBuffer, rows: int = 130, **kind) -> ReplayBuffer:
    given = make(rows, envs=2, **kind)
    for start in range(0, rows, 10):
        buffer.add(given[start : start + 10])
    return buffer


# -- attentive ------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["cosine", "ln"])
@pytest.mark.parametrize("features", [None, policy], ids=["raw", "features"])
def test_attentive_equals_a_naive_sort(distance, features):
    buffer = filled(Attentive(capacity=100, multiplier=2.5, distance=distance, features=features, seed=0))
    for _ in range(5):
        drawn = candidates(buffer, 75)
        newest = buffer.storage[torch.tensor([(buffer.storage.written - 1) % 100])].next_obs[0]
        seen = buffer.storage[torch.from_numpy(drawn)].obs
        if features is not None:
            newest, seen = features(newest), features(seen)
        measure = scipy_cosine if distance == "cosine" else lambda a, b: np.linalg.norm(a - b)
        distances = [measure(state.double().numpy(), newest.double().numpy()) for state in seen]
        expected = [drawn[i] for i in sorted(range(75), key=lambda i: distances[i])[:30]]
        assert buffer.sample(30).slots.tolist() == expected


def test_attentive_with_dict_observations():
    kind = {"obs_shape": {"observation": (3,), "goal": (2,)}}
    buffer = filled(Attentive(capacity=100, distance="ln", seed=0), **kind)
    drawn = candidates(buffer, 30)
    rows = buffer.storage[torch.from_numpy(drawn)].obs
    newest = buffer.storage[torch.tensor([29])].next_obs
    squares = sum((rows[name] - newest[name]).square().sum(1) for name in rows)
    assert buffer.sample(10).slots.tolist() == drawn[np.argsort(squares.numpy(), kind="stable")[:10]].tolist()


def test_the_number_of_candidates_decreases_to_uniform_replay():
    for recipe, half in ((Attentive, 2.0), (Elite, 6 - 5 * 0.25)):
        buffer, plain = filled(recipe(capacity=100, seed=3)), filled(Uniform(capacity=100, seed=3))
        assert buffer.selector.current_multiplier == buffer.selector.multiplier
        buffer.anneal(0.5)
        assert buffer.selector.current_multiplier == half
        buffer.anneal(1.0)
        assert buffer.selector.current_multiplier == 1
        require_same_samples(buffer.sample(32), plain.sample(32))


# -- elite ----------------------------------------------------------------------------------------


def naive(ranked: list[int], counts: list[int], size: int, strategy: int) -> list[int]:
    """The batch according to the definitions, row by row."""
    unique = len(ranked)
    by_replays = sorted(range(unique), key=lambda i: counts[i])  # stable: nearest first
    if strategy == 3:
        order = by_replays
    elif strategy == 1 or unique <= size:
        order = list(range(unique))
    elif strategy == 2:
        order = [k * unique // size for k in range(size)]
    else:
        parts = [range(k * unique // size, (k + 1) * unique // size) for k in range(size)]
        order = [min(part, key=lambda i: counts[i]) for part in parts]
    return [ranked[order[k % len(order)]] for k in range(size)]


@pytest.mark.parametrize("strategy", [1, 2, 3, 4])
@pytest.mark.parametrize("distance", ["ln", "cosine"])
def test_elite_equals_a_naive_sort(strategy, distance):
    for size, rows in ((10, 130), (30, 130), (60, 130), (64, 20), (7, 1)):
        buffer = filled(Elite(capacity=100, strategy=strategy, distance=distance, policy=policy, seed=0), rows)
        replayed = np.zeros(100, int)
        for _ in range(4):
            drawn = list(dict.fromkeys(candidates(buffer, 6 * size).tolist()))
            stored = buffer.storage[torch.tensor(drawn)]
            distances = (lp_norm if distance == "ln" else cosine)(stored.actions, policy(stored.obs)).tolist()
            ranked = [drawn[i] for i in sorted(range(len(drawn)), key=lambda i: distances[i])]
            expected = naive(ranked, [replayed[slot] for slot in ranked], size, strategy)
            slots = buffer.sample(size).slots
            assert slots.tolist() == expected, (size, rows)
            np.add.at(replayed, slots.numpy(), 1)
            assert buffer.selector.replays(torch.arange(100)).tolist() == replayed.tolist()


def test_replay_counts_of_overwritten_rows_are_reset():
    buffer = filled(Elite(capacity=20, policy=policy, seed=0), 20)
    buffer.sample(64)
    before = buffer.selector.replays(torch.arange(20)).clone()
    buffer.add(make(5, seed=1))
    after = buffer.selector.replays(torch.arange(20))
    assert before.min() > 0 and (after[:5] == 0).all() and torch.equal(after[5:], before[5:])


def test_the_behavior_column_has_priority_over_actions():
    buffer, given = Elite(capacity=50, strategy=1, policy=policy, seed=0), make(50)
    given = given.replace(extras={"behavior": policy(given.obs) + torch.arange(50.0)[:, None]})
    buffer.add(given)
    drawn = sorted(set(candidates(buffer, 48).tolist()))
    assert buffer.sample(8).slots.tolist() == drawn[:8]


def test_kl_of_gaussians():
    rng = torch.Generator().manual_seed(0)
    one, other = (torch.randn(6, 4, generator=rng, dtype=torch.float64) for _ in range(2))
    normals = [torch.distributions.Normal(x[:, :2], x[:, 2:].exp()) for x in (one, other)]
    assert torch.allclose(kl(one, other), torch.distributions.kl_divergence(*normals).sum(1))
    with pytest.raises(ValueError, match="has 3 numbers"):
        kl(one[:, :3], other[:, :3])


def test_the_cosine_distance_of_a_zero_vector_is_1():
    assert cosine(torch.zeros(2, 3), torch.ones(1, 3)).tolist() == [1.0, 1.0]


def test_without_a_policy_elite_warns_once_and_strategy_1_is_uniform():
    buffer = filled(Elite(capacity=100, strategy=1, seed=0))
    drawn = list(dict.fromkeys(candidates(buffer, 60).tolist()))
    with pytest.warns(UserWarning, match="Elite has no policy"):
        assert buffer.sample(10).slots.tolist() == drawn[:10]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.sample(10)
        buffer.connect(Context(policy=policy))
        buffer.sample(10)


def test_invalid_policies_and_missing_behavior_are_rejected():
    buffer = filled(Elite(capacity=100, policy=lambda obs: obs[:, :1], seed=0))
    with pytest.raises(ValueError, match=r"policy returned shape \(\d+, 1\); expected \(\d+, 2\), .* of actions"):
        buffer.sample(32)
    buffer = filled(Elite(capacity=100, policy=lambda obs: None, seed=0))
    with pytest.raises(PartError, match="the policy returned a NoneType; expected a tensor"):
        buffer.sample(32)
    buffer = filled(Elite(capacity=100, distance="kl", policy=policy, seed=0))
    with pytest.raises(ValueError, match='extras hold no "behavior"'):
        buffer.sample(32)
