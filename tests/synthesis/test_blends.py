"""Methods that blend an anchor with a neighbor: NMER, NaiveMixup, ContinuousTransition and KNNOutcome."""

import numpy as np
import pytest
import torch
from builders import KINDS, identical, make, require_same_samples
from scipy.stats import kstest

from interreplay import ReplayBuffer
from interreplay.buffer.device_nmer import DeviceNMER
from interreplay.errors import PartError
from interreplay.neighborhood import KNN, ClusterCenter
from interreplay.neighborhood.knn_index.brute_force import nearest
from interreplay.synthesis import Mixup, NearestOutcome
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.coefficient import Uniform as UniformCoefficient
from interreplay.synthesis.gaussian_process import GaussianProcess
from replay_buffers import BIER, NMER, S4RL, ContinuousTransition, KNNOutcome, NaiveMixup, Noise, Uniform

DICT = {"obs_shape": {"observation": (3,), "goal": (2,)}}
BLENDING = {
    "naive": NaiveMixup,
    "fixed CT": lambda **arguments: ContinuousTransition(**({"alpha": 0.75} | arguments)),
    "adaptive CT": ContinuousTransition,
    "NMER": NMER,
}
ALL = BLENDING | {"outcome": KNNOutcome}


def filled(recipe, rows: int = 300, kind: dict | None = None, **arguments) -> ReplayBuffer:
    buffer = recipe(**({"capacity": 200, "seed": 0} | arguments))
    given = make(rows, envs=3, **(kind or {}))
    for start in range(0, rows, 20):
        buffer.add(given[start : start + 20])
    return buffer


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", BLENDING)
def test_rows_are_between_anchor_and_partner(name, kind):
    buffer = filled(BLENDING[name], kind=kind)
    sample = buffer.sample(256)
    blended = sample.neighbor_slots >= 0
    mix = sample.mix[blended]
    anchors = buffer.storage[sample.slots[blended]].columns()
    partners = buffer.storage[sample.neighbor_slots[blended]].columns()
    assert 20 < blended.sum() < 256 and ((mix >= 0) & (mix < 1)).all() and (sample.mix[~blended] == 1).all()
    for column, found in sample.transitions[blended].columns().items():
        if column.startswith(("obs", "next_obs", "actions", "rewards")):
            share = mix.double().reshape(-1, *[1] * (found.dim() - 1))
            expected = share * anchors[column] + (1 - share) * partners[column]
            assert torch.allclose(found.double(), expected, atol=1e-5), column
        else:
            assert torch.equal(found, anchors[column]), column
    identical(sample.transitions[~blended], buffer.storage[sample.slots[~blended]])


@pytest.mark.parametrize("name", ALL)
def test_terminated_ends_are_not_blended_and_truncated_ones_are(name):
    buffer = filled(ALL[name])
    truncated = False
    for _ in range(5):
        sample = buffer.sample(256)
        blended = sample.neighbor_slots >= 0
        for slots in (sample.slots[blended], sample.neighbor_slots[blended]):
            ends = buffer.storage[slots]
            assert not ends.terminated.any()
            truncated |= bool(ends.truncated.any())
    assert truncated


@pytest.mark.parametrize("name", ["fixed CT", "adaptive CT"])
def test_the_partner_is_the_next_step_of_the_same_episode(name):
    buffer = filled(BLENDING[name])
    sample = buffer.sample(256)
    blended = sample.neighbor_slots >= 0
    anchors = buffer.storage[sample.slots[blended]]
    partners = buffer.storage[sample.neighbor_slots[blended]]
    assert torch.equal(anchors.episode, partners.episode)
    assert torch.equal(anchors.next_obs, partners.obs)
    assert not (anchors.terminated | anchors.truncated).any()


@pytest.mark.parametrize("name", ["naive", "fixed CT"])
@pytest.mark.parametrize("alpha", [0.4, 2.0])
def test_distribution_of_lambda(name, alpha):
    buffer = filled(BLENDING[name], alpha=alpha, kind={"ends": 0.0})
    samples = [buffer.sample(256) for _ in range(10)]
    mix = torch.cat([s.mix[s.neighbor_slots >= 0] for s in samples]).double().numpy()
    assert kstest(np.clip(mix, 1e-7, 1 - 1e-7), "beta", args=(alpha, alpha)).pvalue > 1e-4
    assert kstest(UniformCoefficient()(5000, np.random.default_rng(0)), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("recipe", [*ALL.values(), BIER])
def test_probability_0_is_uniform_replay(recipe):
    one = filled(recipe, prob_interpolation=0.0).sample(128)
    other = filled(Uniform).sample(128)
    assert torch.equal(one.slots, other.slots) and torch.equal(one.weights, other.weights)
    identical(one.transitions, other.transitions)
    assert (one.mix == 1).all() and (one.neighbor_slots == -1).all()


@pytest.mark.parametrize("recipe", [*ALL.values(), DeviceNMER])
def test_the_probability_of_blending_decays(recipe):
    buffer = filled(recipe, prob_interpolation=0.8, interp_decay=1.0, kind={"ends": 0.0})
    for progress, expected in ((0.0, 0.8), (0.5, 0.3), (0.8, 0.0), (1.0, 0.0)):
        buffer.anneal(progress)
        assert buffer.synthesizer.probability == pytest.approx(expected)
        share = np.mean([(buffer.sample(256).mix < 1).double().mean() for _ in range(10)])
        assert share == pytest.approx(expected, abs=0.05)
    other = recipe(capacity=200, prob_interpolation=0.8, interp_decay=1.0)
    other.load_state_dict(buffer.state_dict())
    require_same_samples(other.sample(64), buffer.sample(64))


@pytest.mark.parametrize("name", ALL)
def test_termination_by_a_function(name):
    buffer = filled(ALL[name], termination_fn=lambda s, a, n: n[:, 0] > 0.5, gamma=0.9)
    sample = buffer.sample(500)
    blended = sample.neighbor_slots >= 0
    rows = sample.transitions
    if name == "NMER":
        assert buffer.storage[sample.slots[blended]].terminated.any(), "rows with terminated ends are blended"
    assert torch.equal(rows.terminated[blended], rows.next_obs[blended, 0] > 0.5)
    assert torch.equal(rows.terminated[~blended], buffer.storage[sample.slots[~blended]].terminated)
    assert torch.equal(rows.discounts, torch.where(rows.terminated, 0.0, 0.9))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda s: s[:, :1] > 0, r"returned shape \(8, 1\)"),
        (lambda s: bool((s[:, 0] > 0).any()), r"returned shape \(\)"),
        (lambda s: s[:, 0] * 0 + 0.5, "returned 0.5 for a row"),
        (lambda s: s[:, 0] * float("nan"), "returned nan for a row"),
        (lambda s: None, "returned a NoneType"),
    ],
)
def test_an_invalid_termination_function_is_rejected(returned, message):
    buffer = filled(NMER, termination_fn=lambda s, a, n: returned(n))
    with pytest.raises(PartError, match=rf"termination_fn {message}; expected bool of shape \(8,\), one per row"):
        buffer.sample(8)


@pytest.mark.parametrize(
    ("coefficient", "message"),
    [
        (lambda size, rng: np.full(size, np.nan), "returned λ with the value nan; expected 0.0 to 1.0"),
        (lambda size, rng: np.full(size, 1.5), "returned λ with the value 1.5; expected 0.0 to 1.0"),
        (lambda size, rng: rng.random((size, 1)), r"returned λ of shape \(8, 1\)"),
        (lambda size, rng: None, r"returned λ of shape \(\)"),
        (lambda size, rng: ["half"] * size, "returned a list; expected one λ per row"),
    ],
)
@pytest.mark.parametrize("synthesizer", [Mixup, GaussianProcess])
def test_an_invalid_coefficient_is_rejected(synthesizer, coefficient, message):
    buffer = ReplayBuffer(200, neighborhood=KNN(k=3, draw=None), synthesizer=synthesizer(coefficient=coefficient))
    buffer.add(make(50))
    with pytest.raises(PartError, match=f"coefficient .* {message}"):
        buffer.sample(8)
    for wrong in (0.5, Beta):
        with pytest.raises(ValueError, match=r"coefficient is .*; expected a function \(size, rng\)"):
            synthesizer(coefficient=wrong)


def test_a_coefficient_may_return_a_tensor():
    buffer = ReplayBuffer(200, neighborhood=KNN(k=3), synthesizer=Mixup(lambda size, rng: torch.full((size,), 0.25)))
    buffer.add(make(50, ends=0.0))
    assert (buffer.sample(8).mix == 0.25).all()


def test_a_termination_function_may_return_an_array_and_change_its_inputs():
    def changing(obs, actions, next_obs):
        return (next_obs.sub_(0.5)[:, 0] > 0).numpy()

    plain = filled(NMER, termination_fn=lambda s, a, n: n[:, 0] > 0.5)
    identical(filled(NMER, termination_fn=changing).sample(64).transitions, plain.sample(64).transitions)


def test_a_single_row_does_not_change():
    always = lambda s, a, n: torch.ones(len(a), dtype=torch.bool)
    for buffer in (
        NMER(capacity=5),
        NMER(capacity=5, termination_fn=always),
        KNNOutcome(capacity=5),
        KNNOutcome(capacity=5, termination_fn=always),
        NaiveMixup(capacity=5),
        BIER(capacity=5, hyperparameters="rows", epochs=1),
        BIER(capacity=5, hyperparameters="monte_carlo", epochs=1),
        BIER(capacity=5, hyperparameters="local", epochs=1),
    ):
        buffer.add(make(1, ends=0.0))
        sample = buffer.sample(8)
        identical(sample.transitions, buffer.storage[sample.slots])
        assert (sample.neighbor_slots == -1).all() and (sample.mix == 1).all(), buffer


IMAGE = {"obs_shape": (4, 4, 3), "obs_dtype": np.uint8}
DISCRETE = {"obs_shape": (), "obs_dtype": np.int64, "action_shape": (), "action_dtype": np.int64}


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        (NMER, IMAGE, "obs of torch.uint8 cannot be blended; expected floats"),
        (NMER, DISCRETE, "obs of torch.int64 and actions of torch.int64 cannot be blended"),
        (NMER, {"obs_shape": {"camera": (2,)}, "obs_dtype": np.uint8}, "obs.camera of torch.uint8 cannot be blended"),
        (DeviceNMER, IMAGE, "obs of torch.uint8 cannot be blended; expected floats"),
        (DeviceNMER, DICT, "obs.observation is a part of a Dict; expected arrays of floats, or NMER instead of"),
        (Noise, IMAGE, "obs of torch.uint8 cannot be perturbed; expected floats"),
        (Noise, DISCRETE, "actions of torch.int64 cannot be perturbed; expected floats"),
        (S4RL, IMAGE, "obs of torch.uint8 cannot be augmented; expected floats"),
        (S4RL, DISCRETE, "obs of torch.int64 cannot be augmented; expected floats"),
    ],
)
def test_columns_that_a_method_cannot_change_are_rejected(method, kind, message):
    buffer = method(capacity=20)
    with pytest.raises(ValueError, match=message):
        buffer.add(make(5, **kind))
    assert len(buffer) == 0
    buffer.add(make(5))


# -- Outcomes of neighbors ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, DICT, {"obs_dtype": np.float64}])
@pytest.mark.parametrize("k", [1, 5])
def test_the_outcome_is_that_of_a_nearest_row(k, kind):
    buffer = filled(KNNOutcome, kind=kind, k=k)
    sample = buffer.sample(256)
    taken = sample.neighbor_slots >= 0
    slots = sample.slots[taken]
    found = sample.neighbor_slots[taken]
    assert (nearest(buffer.storage, slots, k) == found[:, None]).any(1).all() and taken.sum() > 50
    rows, own, other = (
        {name: column.double() for name, column in transitions.columns().items()}
        for transitions in (sample.transitions[taken], buffer.storage[slots], buffer.storage[found])
    )
    assert torch.equal(rows["actions"], own["actions"]) and torch.equal(rows["rewards"], other["rewards"])
    for name in [name for name in rows if name.startswith("next_obs")]:
        start = name.removeprefix("next_")
        assert torch.equal(rows[start], own[start])
        assert torch.allclose(rows[name], own[start] + other[name] - other[start], atol=1e-5)
    assert (sample.mix[taken] == 0).all() and (sample.mix[~taken] == 1).all()
    identical(sample.transitions[~taken], buffer.storage[sample.slots[~taken]])


def test_a_blend_of_returns_of_several_lengths_blends_their_discounts():
    buffer = filled(NMER, kind={"ends": 0.1}, n_step=3, gamma=0.9)
    sample = buffer.sample(256)
    blended = sample.neighbor_slots >= 0
    mix = sample.mix[blended]
    own = buffer.read(sample.slots[blended]).discounts
    other = buffer.read(sample.neighbor_slots[blended]).discounts
    assert (own != other).any()
    assert torch.allclose(sample.transitions.discounts[blended], mix * own + (1 - mix) * other)


def test_an_n_step_outcome_includes_its_discount():
    buffer = filled(KNNOutcome, n_step=3, gamma=0.9)
    sample = buffer.sample(256)
    taken = sample.neighbor_slots >= 0
    other = buffer.read(sample.neighbor_slots[taken])
    assert torch.equal(sample.transitions.discounts[taken], other.discounts)
    assert torch.equal(sample.transitions.rewards[taken], other.rewards)


def test_the_outcome_of_a_mean_keeps_the_discount_of_its_anchor():
    buffer = ReplayBuffer(200, None, ClusterCenter(n_clusters=5), NearestOutcome(), n_step=3, gamma=0.9, seed=0)
    buffer.add(make(200, envs=3))
    sample = buffer.sample(64)
    assert (sample.mix == 0).any()
    assert torch.equal(sample.transitions.discounts, buffer.read(sample.slots).discounts)
