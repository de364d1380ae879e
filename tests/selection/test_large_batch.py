"""LaBER: the second draw, its weights and its scores."""

import numpy as np
import pytest
import torch
from builders import make, require_same_samples
from scipy.stats import chisquare

from interreplay import ReplayBuffer
from interreplay.errors import PartError
from interreplay.neighborhood import KNN
from interreplay.part import Context
from interreplay.selection import LargeBatch
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from replay_buffers import LaBER, Uniform

ROWS = 12


class RewardScore:
    """Scores rows by their reward and records the calls."""

    def __init__(self):
        self.calls: list[tuple[int, frozenset[str]]] = []

    def __call__(self, rows, names):
        self.calls.append((len(rows), names))
        return {"mean_error": rows.rewards.abs(), "target": 7.0 * rows.rewards}


def buffer_of(multiplier: float = 4.0, n_step: int = 1) -> tuple[ReplayBuffer, RewardScore]:
    known = RewardScore()
    buffer = LaBER(capacity=ROWS, multiplier=multiplier, score=known, n_step=n_step, seed=0)
    buffer.add(make(30, ends=0.0)[torch.arange(ROWS)])
    return buffer, known


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", [2.0, 4.0])
def test_candidates_are_kept_in_proportion_to_their_errors(multiplier):
    """The candidates are reproduced from the state of the generator."""
    buffer, known = buffer_of(multiplier)
    size, errors = 64, buffer.storage.column("rewards").abs().double().numpy()
    found, expected = np.zeros(ROWS), np.zeros(ROWS)
    for _ in range(300):
        twin = np.random.default_rng()
        twin.bit_generator.state = buffer.rng.bit_generator.state
        candidates = twin.integers(0, ROWS, int(multiplier * size))
        sample = buffer.sample(size)
        kept = sample.slots.numpy()
        mass = np.bincount(candidates, minlength=ROWS) * errors
        expected += size * mass / mass.sum()
        found += np.bincount(kept, minlength=ROWS)
        assert sample.weights.numpy() == pytest.approx(errors[candidates].mean() / errors[kept], rel=1e-5)
        assert torch.equal(sample.weights, sample.actor_weights)
    assert chisquare(found, expected).pvalue > 1e-4
    assert set(known.calls) == {(int(multiplier * size), frozenset({"mean_error", "target"}))}


def test_one_candidate_per_row_is_uniform_replay():
    buffer, known = buffer_of(1.0)
    uniform = Uniform(capacity=ROWS, seed=0)
    uniform.add(buffer.storage[torch.arange(ROWS)].replace(discounts=None))
    for _ in range(3):
        require_same_samples(buffer.sample(16), uniform.sample(16))
    assert known.calls == [] and (buffer.sample(16).weights == 1).all()


def test_targets_are_those_of_the_drawn_rows():
    buffer, _ = buffer_of()
    sample = buffer.sample(16)
    torch.testing.assert_close(sample.targets, 7.0 * sample.transitions.rewards)
    blending = ReplayBuffer(ROWS, LargeBatch(score=RewardScore()), KNN(k=3), Mixup(Beta(0.75)), seed=0)
    blending.add(buffer.storage[torch.arange(ROWS)].replace(discounts=None))
    assert blending.sample(16).targets is None, "targets of anchors are not those of blends"


def test_equal_errors_and_zero_errors_give_weights_of_1():
    for reward in (3.0, 0.0):
        buffer = LaBER(capacity=ROWS, score=RewardScore(), seed=0)
        rows = make(ROWS)
        buffer.add(rows.replace(rewards=torch.full_like(rows.rewards, reward)))
        torch.testing.assert_close(buffer.sample(16).weights, torch.ones(16))


def test_candidates_are_read_with_the_view_of_the_buffer_and_scored_by_the_connected_algorithm():
    seen = []
    buffer, known = buffer_of(n_step=3)
    buffer.connect(Context(score=lambda rows, names: seen.append(rows) or {"mean_error": rows.rewards.abs()}))
    buffer.connect(Context())
    buffer.sample(16)
    assert len(seen) == 1 and not known.calls
    assert seen[0].discounts.min() < 0.99**2


def test_a_missing_score_is_an_error():
    buffer = LaBER(capacity=ROWS, seed=0)
    buffer.add(make(ROWS))
    with pytest.raises(ValueError, match="there is no score function; expected a connected algorithm"):
        buffer.sample(4)
    with pytest.raises(ValueError, match="LaBER requires score, which RLlib's DQN does not provide; expected our SAC"):
        buffer.check_offers(frozenset(), "RLlib's DQN")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (None, "a NoneType without 'mean_error'; expected a mapping"),
        ({"target": 0}, "a dict without 'mean_error'; expected a mapping"),
        ({"mean_error": np.ones(16)}, "'mean_error' of type ndarray; expected a tensor"),
        ({"mean_error": torch.ones(15)}, r"'mean_error' of shape \(15,\)"),
        ({"mean_error": torch.ones(16), "target": torch.ones(16, 1)}, r"'target' of shape \(16, 1\)"),
        ({"mean_error": torch.full((16,), torch.nan)}, "'mean_error' with the value nan; expected 0.0"),
        ({"mean_error": -torch.ones(16)}, "'mean_error' with the value -1.0; expected 0.0"),
    ],
)
def test_invalid_scores_of_a_user_are_rejected(scores, message):
    buffer = LaBER(capacity=ROWS, score=lambda rows, names: scores, seed=0)
    buffer.add(make(ROWS))
    with pytest.raises(PartError, match=f"score returned {message}"):
        buffer.sample(4)
