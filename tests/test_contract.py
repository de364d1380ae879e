"""What every entry of the catalogue promises."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from builders import Episodes, identical, make, same_sample, same_state, unwritten_memory_holds
from scipy.stats import chisquare

import replay_buffers
from interreplay import ReplayBuffer
from interreplay.neighborhood import KNN, ClusterCenter
from interreplay.runs import state_files
from interreplay.storage.state_copies import copy_arrays


def distance(achieved, desired, info):
    """A reward of goals."""
    return -np.linalg.norm(achieved - desired, axis=-1)


def near(achieved, desired, info):
    """Ends of episodes with goals, one row at a time."""
    return bool(np.linalg.norm(achieved - desired) < 0.3)


class HER(replay_buffers.HER):
    """Has to know what an environment would tell it."""

    def __init__(self, **arguments):
        super().__init__(compute_reward=distance, compute_terminated=near, **arguments)


class HERWithNMER(HER):
    """Blends in hindsight."""

    def __init__(self, **arguments):
        super().__init__(neighborhood=KNN(k=3), **arguments)


class HERWithLCER(HER):
    """Blends with cluster means, which no episode has, in hindsight."""

    def __init__(self, **arguments):
        super().__init__(neighborhood=ClusterCenter(n_clusters=5), **arguments)


def size_of_reward(rows, names):
    """Scores of rows by any names."""
    return {name: rows.rewards.abs() for name in names}


class LaBER(replay_buffers.LaBER):
    """Has to know the errors of an algorithm."""

    def __init__(self, **arguments):
        super().__init__(score=size_of_reward, **arguments)


class ERE(replay_buffers.ERE):
    """Draws from fewer rows than a test has."""

    def __init__(self, **arguments):
        super().__init__(c_min=5, **arguments)


class EventTables(replay_buffers.EventTables):
    """Has tables that are full enough to be drawn from."""

    def __init__(self, **arguments):
        super().__init__(events=["reward > 1", "terminated"], shares=[0.15, 0.05], history=2, **arguments)


GOALS = {"obs_shape": {"achieved_goal": (2,), "desired_goal": (2,), "observation": (3,)}}
HINDSIGHT = {"HER": HER, "HER with NMER": HERWithNMER, "HER with LCER": HERWithLCER}
VARIANTS = {name: getattr(replay_buffers, name) for name in replay_buffers.__all__} | HINDSIGHT
VARIANTS |= {"LaBER": LaBER, "ERE, few": ERE, "EventTables, short": EventTables}
VARIANTS["LCER, member"] = lambda **arguments: replay_buffers.LCER(variant="member", **arguments)
NEVER_DRAWS = {"Online"}  # what it selects does not depend on a seed
RANKS_ROWS = {"Attentive", "Elite", "LaBER"}  # how often a row is kept depends on all others; told is the candidates'
WEIGHS_OTHERWISE = {"LaBER", "LA3P"}  # weights above 1, or 0 for rows that only the actor learns from
# As a user without an algorithm would try it: nothing is on- or off-policy then, which is said once.
pytestmark = pytest.mark.filterwarnings("ignore:Elite has no policy")
KINDS = {
    "plain": {},
    "half cheetah": {"obs_shape": (17,), "action_shape": (6,)},
    "dict": {"obs_shape": {"observation": (3,), "desired_goal": (2,)}},
    "float64": {"obs_dtype": np.float64, "action_dtype": np.float64},
    "2-D action": {"action_shape": (2, 2)},
}


@pytest.fixture(params=VARIANTS, name="recipe")
def _recipe(request):
    return VARIANTS[request.param]


def rows_for(recipe, **kind):
    """What random rows are to look like: those that the recipe works with, else of this kind."""
    return kind | GOALS if recipe in HINDSIGHT.values() else kind


def filled(recipe, rows: int = 150, capacity: int = 100, seed: int = 0, **kind) -> ReplayBuffer:
    buffer, episodes = recipe(capacity=capacity, seed=seed), Episodes(envs=2, **rows_for(recipe, **kind))
    for _ in range(rows // 10):
        buffer.add(episodes.transitions(10))
    return buffer


def use(buffer: ReplayBuffer, rounds: int = 3) -> None:
    """Add, sample and update a few times."""
    episodes = Episodes(seed=77, envs=2, **rows_for(type(buffer)))
    for step in range(rounds):
        buffer.add(episodes.transitions(7))
        sample = buffer.sample(32)
        learn(buffer, sample, np.random.default_rng(step).normal(size=32))
        buffer.anneal((step + 1) / 10)


def learn(buffer: ReplayBuffer, sample, errors) -> None:
    """Report errors ``(n,)``, and as scores what the method wants of them."""
    buffer.update(sample, errors, {name: np.asarray(errors) ** 2 for name in buffer.scores_wanted})


COUNTS = (1, 2, 20, 150)
# Kinds by turns of counts; plain rows with every count.
KINDS_OF_ROWS = [
    pytest.param(kind, rows, marks=[] if kind == "plain" or i % len(COUNTS) == j else [pytest.mark.slow])
    for i, kind in enumerate(KINDS)
    for j, rows in enumerate(COUNTS)
]


@pytest.mark.parametrize(("kind", "rows"), KINDS_OF_ROWS)
def test_shapes_dtypes_and_finiteness(recipe, kind, rows):
    given, buffer = make(rows, envs=2, **rows_for(recipe, **KINDS[kind])), recipe(capacity=100, seed=0)
    buffer.add(given)
    sample = buffer.sample(64)
    columns = given.replace(discounts=torch.zeros_like(given.rewards)).columns()
    found = sample.transitions.columns()
    assert set(found) == set(columns) and len(sample) == len(sample.transitions) == 64
    for name, column in found.items():
        assert column.shape == (64, *columns[name].shape[1:]) and column.dtype == columns[name].dtype, name
        assert column.device == buffer.device
        assert not column.is_floating_point() or torch.isfinite(column).all(), name
    for name in ("slots", "weights", "neighbor_slots", "probabilities"):
        assert getattr(sample, name).shape == (64,), name
    assert sample.slots.dtype == sample.neighbor_slots.dtype == torch.int64
    assert sample.weights.dtype == torch.float32 and torch.isfinite(sample.weights).all()
    otherwise = recipe.__name__ in WEIGHS_OTHERWISE
    assert otherwise or ((sample.weights > 0) & (sample.weights <= 1)).all()
    for weights in (sample.weights, sample.actor_weights):
        assert weights is None or ((weights >= 0).all() and weights.shape == (64,))
    assert sample.mix is None or (sample.mix.shape == (64,) and ((sample.mix >= 0) & (sample.mix <= 1)).all())


def test_only_rows_that_were_written_are_drawn(recipe):
    for rows in (1, 2, 37):
        buffer = recipe(capacity=100, seed=0)
        buffer.add(make(rows, ends=0.0, **rows_for(recipe)))
        for _ in range(20):
            sample = buffer.sample(64)
            for slots in (sample.slots, sample.neighbor_slots):
                assert (slots < rows).all() and (slots >= -1).all()
            assert (sample.slots >= 0).all() and (sample.neighbor_slots != sample.slots).all()


def test_every_row_is_drawn_as_often_as_is_said(recipe):
    buffer, counts, probabilities = filled(recipe, capacity=30), np.zeros(30), np.zeros(30)
    for _ in range(100):
        sample = buffer.sample(128)
        counts += np.bincount(sample.slots.numpy(), minlength=30)
        probabilities[sample.slots.numpy()] = sample.probabilities.numpy()
    if recipe.__name__ in RANKS_ROWS:
        assert np.allclose(probabilities[counts > 0], 1 / 30), "that of a candidate"
        return
    assert probabilities.sum() == pytest.approx(1.0, rel=1e-5)
    assert chisquare(counts, probabilities / probabilities.sum() * counts.sum()).pvalue > 1e-4


def test_one_seed_gives_one_result(recipe):
    one, other = filled(recipe), filled(recipe)
    for _ in range(3):
        use(one)
        use(other)
        same_sample(one.sample(64), other.sample(64))
    if recipe.__name__ in NEVER_DRAWS:
        return
    different = filled(recipe, seed=1)
    assert not torch.equal(different.sample(64).slots, filled(recipe).sample(64).slots)


def test_several_batches_are_as_good_as_one_at_a_time(recipe):
    """All of one draw where rows are independent, else each when its turn comes."""
    buffer, twin = filled(recipe), filled(recipe)
    independent = all(part.independent_rows for part in buffer.parts.values())
    expected = iter(twin.sample(24).split(8)) if independent else (twin.sample(8) for _ in range(3))
    for step, batch in enumerate(buffer.batches(8, 3)):
        assert len(batch) == len(batch.transitions) == len(batch.weights) == 8
        alone = next(expected)
        same_sample(batch, alone)
        errors = np.random.default_rng(step).normal(size=8)
        learn(buffer, batch, errors)
        learn(twin, alone, errors)


def test_a_draw_is_split_into_equal_parts_only(recipe):
    with pytest.raises(ValueError, match="cannot split 12 rows into batches of 8"):
        filled(recipe).sample(12).split(8)


def test_no_seed_gives_different_results(recipe):
    if recipe.__name__ in NEVER_DRAWS:
        pytest.skip("draws nothing")
    assert not torch.equal(filled(recipe, seed=None).sample(64).slots, filled(recipe, seed=None).sample(64).slots)


def test_sampling_leaves_the_storage_untouched(recipe):
    buffer = filled(recipe)
    before, slots = copy_arrays(buffer.storage.state_dict()), torch.arange(100)
    rows = buffer.storage[slots]
    for _ in range(5):
        sample = buffer.sample(64)
        for column in sample.transitions.columns().values():
            column.zero_()
        learn(buffer, sample, np.ones(64))
    identical(buffer.storage[slots], rows)
    assert torch.equal(buffer.storage.state_dict()["rows"], before["rows"])
    assert buffer.storage.written == before["written"]


@pytest.mark.parametrize("rows", [10, 150])
def test_a_state_gives_the_same_batches_in_a_new_buffer_and_in_the_old_one(recipe, rows):
    buffer = filled(recipe, rows)
    use(buffer)
    saved = buffer.state_dict()
    expected = continued(buffer)
    fresh = recipe(capacity=100, seed=5)
    fresh.load_state_dict(copy.deepcopy(saved))
    buffer.load_state_dict(saved)
    for again in (fresh, buffer):
        for one, other in zip(continued(again), expected, strict=True):
            same_sample(one, other)


def test_equal_runs_have_equal_states(recipe):
    """A state has no byte that was never written: these differ between processes."""
    states = []
    for byte in (0x11, 0x99):
        with unwritten_memory_holds(byte):
            buffer = filled(recipe, 60)
            use(buffer)
            buffer.add(make(3, seed=9, **rows_for(recipe)))  # rows that wait for a neighborhood until one is drawn
            states.append(copy_arrays(buffer.state_dict()))
    same_state(*states)


def continued(buffer: ReplayBuffer) -> list:
    samples = []
    for _ in range(3):
        samples.append(buffer.sample(64))
        use(buffer)
    return [*samples, buffer.sample(64)]


def test_a_state_on_disk_gives_the_same_batches(recipe, tmp_path):
    buffer = filled(recipe)
    use(buffer)
    state_files.save(tmp_path / "state", buffer.state_view())
    fresh = recipe(capacity=100)
    fresh.load_state_dict(state_files.load(tmp_path / "state"))
    for one, other in zip(continued(fresh), continued(buffer), strict=True):
        same_sample(one, other)


def test_the_state_of_an_empty_buffer(recipe):
    fresh = recipe(capacity=100, seed=1)
    fresh.load_state_dict(recipe(capacity=100, seed=0).state_dict())
    fresh.add(make(50, **rows_for(recipe)))
    expected = recipe(capacity=100, seed=0)
    expected.add(make(50, **rows_for(recipe)))
    same_sample(fresh.sample(64), expected.sample(64))


def pickled(buffer: ReplayBuffer) -> ReplayBuffer:
    return pickle.loads(pickle.dumps(buffer))


@pytest.mark.parametrize(
    ("rows", "duplicate"),
    [
        (0, copy.deepcopy),
        (150, pickled),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in ((0, pickled), (150, copy.deepcopy))),
    ],
    ids=["0-deepcopy", "150-pickle", "0-pickle", "150-deepcopy"],
)
def test_duplicates_go_their_own_way(recipe, rows, duplicate):
    buffer = filled(recipe, rows)
    other = duplicate(buffer)
    use(buffer)
    use(other)
    same_sample(buffer.sample(64), other.sample(64))
    buffer.add(make(50, seed=99, **rows_for(recipe)))
    buffer.sample(8)
    untouched = duplicate(other)
    same_sample(other.sample(64), untouched.sample(64))


def test_errors_of_shape_n_1_are_refused(recipe):
    buffer = filled(recipe)
    sample = buffer.sample(16)
    for wrong in (torch.zeros(16, 1), np.zeros((1, 16)), torch.zeros(15), 0.5):
        with pytest.raises(ValueError, match=r"td_errors has shape .*; expected \(16,\)"):
            buffer.update(sample, wrong)


def test_updates_after_everything_was_overwritten_change_nothing(recipe):
    one, other = filled(recipe), filled(recipe)
    sample = one.sample(64)
    other.sample(64)
    for buffer in (one, other):
        buffer.add(make(100, seed=3, **rows_for(recipe)))
    learn(one, sample, np.full(64, 1e3))
    same_sample(one.sample(64), other.sample(64))


@pytest.mark.parametrize("capacity", [0, -1])
def test_bad_capacity(recipe, capacity):
    with pytest.raises(ValueError, match=f"capacity is {capacity}"):
        recipe(capacity=capacity)


def test_unknown_arguments_are_refused(recipe):
    with pytest.raises(TypeError):
        recipe(capacity=10, alhpa=1)
    with pytest.raises(TypeError):
        recipe(10)
