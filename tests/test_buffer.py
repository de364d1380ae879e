"""ReplayBuffer: adding rows in portions, rejected rows, updates after overwriting, users' parts."""

import copy
import warnings

import numpy as np
import pytest
import torch
from builders import Episodes, identical, make, stack

from interreplay import InterreplayError, NonFiniteError, ReplayBuffer, Transitions
from interreplay.buffer.catalogue import make_buffer
from interreplay.buffer.part_checks import has_own_code
from interreplay.errors import InterreplayWarning
from interreplay.neighborhood import KNN, Neighborhood, Neighbors
from interreplay.part import Context
from interreplay.selection import Combined, EventTables, MixedSelection, Online, Prioritized, Selector
from interreplay.selection import Uniform as UniformSelector
from interreplay.storage.ring import Storage
from interreplay.synthesis import Mixup, Synthesized, Synthesizer
from replay_buffers import HER, LCER, NMER, PER, ContinuousTransition, Uniform


def test_a_storage_with_overwritten_rows_can_be_drawn_from():
    rows = make(70, ends=0.0)
    rows = rows.replace(terminated=torch.arange(70) == 52)  # rows 47 to 52 are in slots 47 to 49 and 0 to 2
    tables = ReplayBuffer(capacity=50, selector=EventTables("terminated", history=5))
    clusters = LCER(capacity=50, n_clusters=4)
    for buffer in (tables, clusters):
        storage = Storage(50)
        storage.add(rows[:50])
        storage.add(rows[50:])
        buffer.draw_from(storage)
    assert sorted(tables.selector._tables[0].members.tolist()) == [0, 1, 2, 47, 48, 49]
    moments = clusters.neighborhood.clustering.scale
    expected = clusters.storage.features(torch.arange(50)).double().std(dim=0, correction=0)
    assert moments.mean_and_std()[1] == pytest.approx(expected.numpy(), rel=1e-5)


def test_adding_no_rows():
    buffer = NMER(capacity=10)
    assert buffer.add(make(4)[:0]).tolist() == []
    buffer.add(make(3))
    assert buffer.add(make(3)[:0]).tolist() == [] and len(buffer) == 3


def test_invalid_sizes_are_rejected():
    buffer = Uniform(capacity=10)
    with pytest.raises(ValueError, match="cannot sample 4 rows from 0"):
        buffer.sample(4)
    buffer.add(make(3))
    for size in (0, -1, 2.0):
        with pytest.raises(ValueError, match=f"cannot sample {size} rows from 3"):
            buffer.sample(size)
    assert len(buffer.sample(np.int64(2)).slots) == 2


@pytest.mark.parametrize("kind", [Uniform, PER, NMER])
def test_non_finite_rows_are_rejected_and_nothing_is_stored(kind):
    columns = ("obs.a", "obs.b", "actions", "rewards", "next_obs.a", "extras.x")
    for number, column in enumerate(columns):
        bad = (np.nan, np.inf, -np.inf)[number % 3]
        buffer = kind(capacity=8)
        rows = make(20, obs_shape={"a": (2,), "b": (2,)}).replace(extras={"x": torch.zeros(20)})
        buffer.add(rows[:6])
        before, written = buffer.storage[torch.arange(6)], buffer.storage.written
        invalid = rows.map(torch.clone)
        invalid.columns()[column][17] = bad
        with pytest.raises(NonFiniteError, match=f"{column} holds {bad} at row 17") as caught:
            buffer.add(invalid)
        assert (caught.value.column, caught.value.row) == (column, 17) and isinstance(caught.value, InterreplayError)
        assert buffer.storage.written == written
        identical(buffer.storage[torch.arange(6)], before)
        buffer.add(rows)
        buffer.sample(4)


def test_numbers_too_large_for_the_stored_dtype_are_rejected():
    buffer, rows = Uniform(capacity=8), make(4)
    buffer.add(rows)
    huge = rows.rewards.double()
    huge[2] = 1e300
    with pytest.raises(NonFiniteError, match="rewards holds inf at row 2"):
        buffer.add(rows.replace(rewards=huge))
    assert len(buffer) == 4


def test_update_accepts_numpy_and_tensors_with_gradients():
    buffer = PER(capacity=20, seed=0, eps=1.0)
    buffer.add(make(20))
    sample = buffer.sample(1)
    buffer.update(sample, torch.tensor([-2.0], requires_grad=True))
    assert buffer.selector.priorities(sample.slots).tolist() == [3.0]
    buffer.update(sample, np.array([4.0]))
    assert buffer.selector.priorities(sample.slots).tolist() == [5.0]


def test_states_with_another_capacity_or_other_columns_are_rejected():
    buffer = Uniform(capacity=20)
    buffer.add(make(5))
    with pytest.raises(ValueError, match="capacity 20; this storage has 30"):
        Uniform(capacity=30).load_state_dict(buffer.state_dict())
    other = Uniform(capacity=20)
    other.add(make(5, obs_shape=(9,)))
    with pytest.raises(ValueError, match="expected the stored columns"):
        other.load_state_dict(buffer.state_dict())


def test_the_state_of_another_method_is_rejected_and_changes_nothing():
    state = PER(capacity=20).state_dict()
    uniform = Uniform(capacity=20, seed=0)
    uniform.add(make(5))
    with pytest.raises(ValueError, match="the selector of the state is Prioritized; expected Uniform"):
        uniform.load_state_dict(state)
    assert len(uniform) == 5
    mixed = ReplayBuffer(capacity=20, selector=MixedSelection({"new": Online(), "all": UniformSelector()}))
    other = ReplayBuffer(capacity=20, selector=MixedSelection({"new": Online(), "all": Prioritized()}))
    with pytest.raises(ValueError, match="all=Prioritized.*; expected .*all=Uniform"):
        mixed.load_state_dict(other.state_dict())


def test_the_incomplete_state_of_a_part_is_rejected():
    buffer = PER(capacity=20)
    state = buffer.state_dict()
    del state["selector"]["largest"]
    with pytest.raises(ValueError, match="the selector of the state has no 'largest', which this Prioritized requires"):
        buffer.load_state_dict(state)


def test_the_state_of_an_empty_buffer_clears_a_full_one():
    for kind in (Uniform, PER, NMER):
        empty, full = kind(capacity=20, seed=0).state_dict(), kind(capacity=20, seed=1)
        full.add(make(20))
        full.load_state_dict(empty)
        assert len(full) == 0
        full.add(make(5, obs_shape=(9,)))
        assert full.sample(4).transitions.obs.shape == (4, 9)


def test_the_order_of_parts_does_not_matter_in_rows_and_in_a_state():
    rows = make(10, obs_shape={"b": (3,), "a": (2,)}, ends=0.0)
    turned = rows.replace(obs=dict(reversed(rows.obs.items())), next_obs=dict(reversed(rows.next_obs.items())))
    one, other = Uniform(capacity=20), Uniform(capacity=20)
    one.add(rows[:5])
    one.add(turned[5:])
    assert one.storage.successor(torch.arange(9)).tolist() == list(range(1, 10))
    identical(one.storage[torch.arange(10)].replace(discounts=None), rows)
    other.add(turned)
    other.load_state_dict(one.state_dict())
    identical(other.storage[torch.arange(10)], one.storage[torch.arange(10)])
    other.add(turned)
    assert torch.equal(other.storage[torch.arange(10, 20)].obs["b"], rows.obs["b"])


class First(Selector):
    """Draws the first slot only."""

    def select(self, storage, size, rng):
        return torch.zeros(size, dtype=torch.int64), torch.ones(size)


class Next(Neighborhood):
    """Returns the next two slots."""

    def gather(self, storage, slots, rng):
        partners = torch.stack([slots + 1, slots + 2], dim=1)
        return Neighbors(partners, storage[partners])


class Sum(Synthesizer):
    """Sums the rewards of the anchor and both neighbors."""

    def __call__(self, anchors, neighbors, rng):
        return Synthesized(anchors.replace(rewards=anchors.rewards + neighbors.rewards.sum(dim=1)))


def test_user_defined_parts():
    buffer = ReplayBuffer(10, First(), Next(), Sum())
    rows = make(5)
    buffer.add(rows)
    sample = buffer.sample(3)
    assert sample.transitions.rewards.tolist() == pytest.approx([float(rows.rewards[:3].sum())] * 3)
    assert sample.neighbor_slots.tolist() == [1, 1, 1] and sample.mix is None


class OnlyColumns(Synthesizer):
    """Returns the anchors without their discounts."""

    def __call__(self, anchors, neighbors, rng):
        return Synthesized(anchors.replace(discounts=None))


def test_a_part_with_the_rows_of_another_buffer_causes_a_warning():
    shared = Prioritized()
    buffer = NMER(capacity=10, selector=shared, seed=0)
    buffer.add(make(20))
    other = ReplayBuffer(10, selector=MixedSelection({"all": UniformSelector(), "hard": shared}, {"hard": 0.5}))
    with pytest.warns(InterreplayWarning, match="this Prioritized keeps state of another replay buffer's rows; create"):
        other.add(make(3))
    copied = copy.deepcopy(buffer)
    copied.add(make(3))
    buffer.add(make(3))
    identical(copied.sample(8).transitions, buffer.sample(8).transitions)
    uniform = UniformSelector()
    for _ in range(2):
        ReplayBuffer(10, selector=uniform).add(make(3))


def test_n_step_rows_without_discounts_have_those_of_their_anchors():
    buffer = ReplayBuffer(50, synthesizer=OnlyColumns(), n_step=3, seed=0)
    buffer.add(make(50, ends=0.1))
    sample = buffer.sample(64)
    assert torch.equal(sample.transitions.discounts, buffer.read(sample.slots).discounts)


def test_users_parts_are_found_inside_other_parts():
    assert has_own_code(MixedSelection({"all": UniformSelector(), "first": First()}))
    assert has_own_code(MixedSelection({"all": Combined(ContextLog())}))
    assert not has_own_code(MixedSelection({"all": UniformSelector(), "hard": Combined(Prioritized())}))


class EvictionLog(UniformSelector):
    """Records the rows that are evicted."""

    def __init__(self):
        self.rewards, self.slots = [], []

    def evict(self, storage, slots):
        self.slots.append(slots.tolist())
        self.rewards.append(storage[slots].rewards.tolist())


def numbered(start: int, count: int) -> Transitions:
    return make(count, seed=start, ends=0.0).replace(rewards=torch.arange(start, start + count).float())


def test_parts_see_rows_before_they_are_overwritten():
    for portions in ([1] * 25, [7, 7, 7, 4], [10, 10], [25], [3, 9, 10, 3]):
        selector = EvictionLog()
        buffer = ReplayBuffer(10, selector)
        for portion in portions:
            start = buffer.storage.written
            slots = buffer.add(numbered(start, portion))
            assert slots.tolist() == [number % 10 for number in range(start, start + portion)]
        evicted = sum(portions) - 10
        assert sum(selector.rewards, []) == list(range(evicted))
        assert sum(selector.slots, []) == [number % 10 for number in range(evicted)]
        assert all(len(set(slots)) == len(slots) for slots in selector.slots), "unique slots"
        newest = torch.arange(evicted, sum(portions))
        assert torch.equal(buffer.storage[newest % 10].rewards, newest.float())


def test_rejected_rows_evict_nothing():
    selector = EvictionLog()
    buffer = ReplayBuffer(10, selector)
    buffer.add(numbered(0, 10))
    bad = numbered(10, 2)
    bad.rewards[1] = float("nan")
    with pytest.raises(NonFiniteError):
        buffer.add(bad)
    assert selector.slots == [] and buffer.storage[torch.arange(10)].rewards.tolist() == list(range(10))


class ContextLog(UniformSelector):
    """Requests a column and records the context."""

    columns_wanted = frozenset({"behavior"})
    context_received = None

    def connect(self, context):
        self.context_received = context


def test_parts_request_columns_and_receive_a_context():
    selector = ContextLog()
    buffer = ReplayBuffer(10, Combined(selector), KNN(3), Mixup())
    assert buffer.columns_wanted == {"behavior"} and not buffer.wants_goal_functions
    buffer.connect(Context(policy=torch.relu, device=torch.device("cpu")))
    assert selector.context_received.policy is torch.relu and selector.context_received.compute_reward is None
    assert ReplayBuffer(10).columns_wanted == frozenset()


def test_goal_functions_are_requested_until_they_are_known():
    buffer = HER(capacity=10)
    assert buffer.wants_goal_functions
    buffer.connect(Context())
    assert buffer.wants_goal_functions
    buffer.connect(Context(compute_reward=max, compute_terminated=min))
    buffer.connect(Context(compute_reward=sum))
    assert not buffer.wants_goal_functions and buffer.synthesizer.compute_reward is max
    buffer = HER(capacity=10, compute_reward=max)
    assert not buffer.wants_goal_functions
    buffer.connect(Context(compute_reward=sum, compute_terminated=min))
    assert buffer.synthesizer.compute_reward is max and buffer.synthesizer.compute_terminated is None
    buffer = HER(capacity=10, compute_terminated=min)
    buffer.connect(Context(compute_reward=max, compute_terminated=sum))
    assert buffer.synthesizer.compute_reward is max and buffer.synthesizer.compute_terminated is min


class Five(NMER):
    def __init__(self, **arguments):
        super().__init__(k=5, **arguments)


@pytest.mark.parametrize("recipe", [Five, lambda **arguments: NMER(k=5, **arguments)])
def test_defaults_reach_a_buffer_that_passes_its_arguments_on(recipe):
    defaults = {"seed": 3, "n_step": 2, "gamma": 0.9, "device": "cpu", "spaces": None}
    made = make_buffer(recipe, defaults, capacity=50)
    expected = NMER(capacity=50, k=5, seed=3, n_step=2, gamma=0.9)
    assert made.view == expected.view
    for buffer in (made, expected):
        buffer.add(make(50))
    assert torch.equal(made.sample(16).slots, expected.sample(16).slots)
    assert make_buffer(recipe, defaults, capacity=50, gamma=0.5).view.gamma == 0.5


def interleaved(ids: bool) -> Transitions:
    """Rows of four interleaved environments."""
    episodes = Episodes(envs=4, ends=0.0)
    return stack([episodes.row(number % 4) for number in range(100)], ids)


def test_rows_of_several_environments_without_ids_cause_one_warning():
    mixed = MixedSelection({"all": UniformSelector(), "events": EventTables(["reward > 0"], history=5)})
    for buffer in (
        Uniform(capacity=200, n_step=3),
        Uniform(capacity=200, n_step=(2, 5)),
        ContinuousTransition(capacity=200),
        ReplayBuffer(200, EventTables(["reward > 0"], history=5)),
        ReplayBuffer(200, mixed),
    ):
        buffer.add(interleaved(ids=False))
        with pytest.warns(UserWarning, match=r"99 of 100 rows do not continue .* Transitions\(\.\.\., episode=ids\)"):
            buffer.sample(8)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(10):  # with several n
                buffer.sample(8)


@pytest.mark.parametrize("n_step", [1, 3])
def test_no_warning_if_rows_are_linked_or_links_are_not_needed(n_step):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_ids, one_env = (Uniform(capacity=200, n_step=n_step) for _ in "12")
        with_ids.add(interleaved(ids=True))
        one_env.add(make(100, ids=False, ends=0.3))
        plain = Uniform(capacity=200)
        plain.add(interleaved(ids=False))
        events = ReplayBuffer(200, EventTables(["reward > 0"], history=0))
        events.add(interleaved(ids=False))
        for buffer in (with_ids, one_env, plain, events):
            buffer.sample(8)


def test_repr_is_one_line():
    buffer = NMER(capacity=1_000, n_step=3, seed=0)
    buffer.add(make(60))
    assert repr(buffer) == "NMER(60 of 1,000 rows, n_step=3; Uniform, KNN, Mixup; cpu)"
    text = repr(buffer.sample(8))
    assert text.startswith("Sample(8 rows, ") and " blended: obs (8, 3) float32, actions (8, 2) float32, " in text
    assert "\n" not in text and len(text) < 400
    assert repr(Uniform(capacity=5)) == "Uniform(0 of 5 rows; Uniform, NoNeighbors, Identity; cpu)"
    assert repr(buffer.sample(8).transitions).startswith("Transitions(8 rows: obs (8, ") and "tensor" not in text


@pytest.mark.parametrize("arguments", [{}, {"n_step": 3}])
def test_float64_rewards_are_kept(arguments):
    rows = make(60, ends=0.0)
    for recipe in (Uniform, NMER):
        buffer = recipe(capacity=100, seed=0, **arguments)
        buffer.add(rows.replace(rewards=rows.rewards.double() + 1e-12))
        assert buffer.sample(8).transitions.rewards.dtype == torch.float64
        assert torch.equal(buffer.storage[torch.arange(60)].rewards, rows.rewards.double() + 1e-12)
