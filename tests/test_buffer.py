"""ReplayBuffer: adding in any portions, refusals, updates after overwriting."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from builders import Episodes, identical, make, stack

from interreplay import InterreplayError, NonFiniteError, ReplayBuffer, Transitions
from interreplay.credit import PriorityUpdate
from interreplay.neighborhood import KNN, Neighborhood, Neighbors
from interreplay.part import Context
from interreplay.selection import Combined, Prioritized, Selector
from interreplay.selection import Uniform as UniformSelector
from interreplay.synthesis import Mixup, Synthesized, Synthesizer
from replay_buffers import HER, NMER, PER, ContinuousTransition, Uniform


@pytest.mark.parametrize("portions", [[100], [1] * 100, [30, 50, 20], [7] * 14 + [2]])
def test_portions_do_not_matter(portions):
    rows = Episodes(envs=3).rows(100)
    whole, buffer = Uniform(capacity=40), Uniform(capacity=40)
    whole.add(stack(rows))
    start = 0
    for portion in portions:
        slots = buffer.add(stack(rows[start : start + portion]))
        assert slots.tolist() == [i % 40 for i in range(start, start + portion)]
        start += portion
    identical(buffer.storage[torch.arange(40)], whole.storage[torch.arange(40)])
    identical(
        buffer.storage[torch.arange(60, 100) % 40],
        stack(rows[60:]).replace(discounts=buffer.storage[torch.arange(60, 100) % 40].discounts),
    )


def test_no_rows_at_all():
    buffer = NMER(capacity=10)
    assert buffer.add(make(4)[:0]).tolist() == []
    buffer.add(make(3))
    assert buffer.add(make(3)[:0]).tolist() == [] and len(buffer) == 3


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_that_make_no_batch(size):
    buffer = Uniform(capacity=10)
    buffer.add(make(3))
    with pytest.raises(ValueError, match=f"cannot sample {size} rows from 3"):
        buffer.sample(size)


def test_an_empty_buffer_cannot_be_sampled():
    with pytest.raises(ValueError, match="cannot sample 4 rows from 0"):
        PER(capacity=10).sample(4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", ["obs", "actions", "rewards", "next_obs", "extras.x"])
@pytest.mark.parametrize("kind", [Uniform, PER, NMER])
def test_numbers_that_are_not_finite_are_refused_and_nothing_is_stored(bad, column, kind):
    buffer = kind(capacity=8)
    rows = make(20).replace(extras={"x": torch.zeros(20)})
    buffer.add(rows[:6])
    before, written = buffer.storage[torch.arange(6)], buffer.storage.written
    spoilt = rows.map(torch.clone)
    spoilt.columns()[column][17] = bad
    with pytest.raises(NonFiniteError, match=f"{column} holds {bad} at row 17") as caught:
        buffer.add(spoilt)
    assert (caught.value.column, caught.value.row) == (column, 17) and isinstance(caught.value, InterreplayError)
    assert buffer.storage.written == written
    identical(buffer.storage[torch.arange(6)], before)
    buffer.add(rows)
    buffer.sample(4)


def test_numbers_too_large_for_the_stored_dtype_are_refused():
    buffer, rows = Uniform(capacity=8), make(4)
    buffer.add(rows)
    huge = rows.rewards.double()
    huge[2] = 1e300
    with pytest.raises(NonFiniteError, match="rewards holds inf at row 2"):
        buffer.add(rows.replace(rewards=huge))
    assert len(buffer) == 4


def test_nan_in_a_dict_observation_is_named():
    buffer, rows = Uniform(capacity=8), make(4, obs_shape={"a": (2,), "b": (2,)})
    rows.obs["b"][1, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"obs\.b holds nan at row 1"):
        buffer.add(rows)


def test_update_passes_over_rows_that_were_overwritten():
    buffer = PER(capacity=20, seed=0, eps=0.5)
    buffer.add(make(20))
    sample = buffer.sample(40)
    buffer.add(make(5, seed=1))
    buffer.update(sample, np.full(40, 7.0))
    drawn = set(sample.slots.tolist())
    expected = [7.5 if slot in drawn and slot >= 5 else 1.0 for slot in range(20)]
    assert buffer.selector.priorities(torch.arange(20)).tolist() == expected


def test_update_when_everything_was_overwritten():
    buffer = PER(capacity=20, seed=0)
    buffer.add(make(20))
    sample = buffer.sample(40)
    buffer.add(make(20, seed=1))
    buffer.update(sample, np.full(40, 7.0))
    assert buffer.selector.priorities(torch.arange(20)).tolist() == [1.0] * 20


def test_update_takes_numpy_and_tensors_that_need_gradients():
    buffer = PER(capacity=20, seed=0, eps=1.0)
    buffer.add(make(20))
    sample = buffer.sample(1)
    buffer.update(sample, torch.tensor([-2.0], requires_grad=True))
    assert buffer.selector.priorities(sample.slots).tolist() == [3.0]
    buffer.update(sample, np.array([4.0]))
    assert buffer.selector.priorities(sample.slots).tolist() == [5.0]


def test_annealing_reaches_the_selector():
    buffer = PER(capacity=20, beta=0.4)
    buffer.anneal(0.5)
    assert buffer.selector.current_beta == pytest.approx(0.7)


def test_discounts_are_there_for_every_method():
    for kind in (Uniform, PER, NMER):
        buffer = kind(capacity=50, gamma=0.9, seed=0)
        buffer.add(make(50, ends=0.3))
        rows = buffer.sample(64).transitions
        assert torch.equal(rows.discounts, torch.where(rows.terminated, 0.0, 0.9))


def test_a_state_of_another_capacity_or_of_other_columns_is_refused():
    buffer = Uniform(capacity=20)
    buffer.add(make(5))
    with pytest.raises(ValueError, match="capacity 20; this storage has 30"):
        Uniform(capacity=30).load_state_dict(buffer.state_dict())
    other = Uniform(capacity=20)
    other.add(make(5, obs_shape=(9,)))
    with pytest.raises(ValueError, match="stored are"):
        other.load_state_dict(buffer.state_dict())


def test_the_state_of_an_empty_buffer_empties_a_full_one():
    for kind in (Uniform, PER, NMER):
        empty, full = kind(capacity=20, seed=0).state_dict(), kind(capacity=20, seed=1)
        full.add(make(20))
        full.load_state_dict(empty)
        assert len(full) == 0
        full.add(make(5, obs_shape=(9,)))
        assert full.sample(4).transitions.obs.shape == (4, 9)


def test_a_state_whose_columns_came_in_another_order_fits():
    rows = make(10, obs_shape={"a": (2,), "b": (3,)})
    turned = rows.replace(obs=dict(reversed(rows.obs.items())), next_obs=dict(reversed(rows.next_obs.items())))
    one, other = Uniform(capacity=20), Uniform(capacity=20)
    one.add(rows)
    other.add(turned)
    other.load_state_dict(one.state_dict())
    found, expected = other.storage[torch.arange(10)], one.storage[torch.arange(10)]
    identical(found, expected)
    other.add(turned)
    assert torch.equal(other.storage[torch.arange(10, 20)].obs["b"], rows.obs["b"])


class First(Selector):
    """Always the first slot."""

    def select(self, storage, size, rng):
        return torch.zeros(size, dtype=torch.int64), torch.ones(size)


class Next(Neighborhood):
    """The next two slots."""

    def gather(self, storage, slots, rng):
        partners = torch.stack([slots + 1, slots + 2], dim=1)
        return Neighbors(partners, storage[partners])


class Sum(Synthesizer):
    """Rewards of the anchor and both neighbors together."""

    def __call__(self, anchors, neighbors, rng):
        return Synthesized(anchors.replace(rewards=anchors.rewards + neighbors.rewards.sum(dim=1)))


def test_own_parts():
    buffer = ReplayBuffer(10, First(), Next(), Sum())
    rows = make(5)
    buffer.add(rows)
    sample = buffer.sample(3)
    assert sample.transitions.rewards.tolist() == pytest.approx([float(rows.rewards[:3].sum())] * 3)
    assert sample.neighbor_slots.tolist() == [1, 1, 1] and sample.mix is None


def test_credit_is_asked_whether_it_fits():
    class Picky(PriorityUpdate):
        def check(self, selector):
            raise ValueError("no")

        weights = update = None

    with pytest.raises(ValueError, match="no"):
        ReplayBuffer(10, Prioritized(), credit=Picky())


def test_integer_rewards_are_discounted():
    rows = make(4, ends=0.0)
    given = Transitions(rows.obs, rows.actions, [1, 2, 3, 4], rows.next_obs, rows.terminated, rows.truncated)
    buffer = Uniform(capacity=8, gamma=0.5, n_step=2)
    buffer.add(given)
    found = buffer.read(torch.arange(4))
    assert found.rewards.tolist() == [2.0, 3.5, 5.0, 4.0] and found.discounts.tolist() == [0.25, 0.25, 0.25, 0.5]


class Leaving(UniformSelector):
    """Remembers what it saw of the rows that made room, and when."""

    def __init__(self):
        self.rewards, self.slots = [], []

    def evict(self, storage, slots):
        self.slots.append(slots.tolist())
        self.rewards.append(storage[slots].rewards.tolist())


def numbered(start: int, count: int) -> Transitions:
    return make(count, seed=start, ends=0.0).replace(rewards=torch.arange(start, start + count).float())


@pytest.mark.parametrize("portions", [[1] * 25, [7, 7, 7, 4], [10, 10], [25], [3, 9, 10, 3]])
def test_parts_see_the_rows_that_are_overwritten_before_they_are(portions):
    selector = Leaving()
    buffer = ReplayBuffer(10, selector)
    for portion in portions:
        buffer.add(numbered(buffer.storage.written, portion))
    gone = sum(portions) - 10
    assert sum(selector.rewards, []) == list(range(gone))
    assert sum(selector.slots, []) == [number % 10 for number in range(gone)]
    assert all(len(set(slots)) == len(slots) for slots in selector.slots), "each slot once"


def test_no_row_leaves_for_rows_that_are_refused():
    selector = Leaving()
    buffer = ReplayBuffer(10, selector)
    buffer.add(numbered(0, 10))
    bad = numbered(10, 2)
    bad.rewards[1] = float("nan")
    with pytest.raises(NonFiniteError):
        buffer.add(bad)
    assert selector.slots == [] and buffer.storage[torch.arange(10)].rewards.tolist() == list(range(10))


class Connected(UniformSelector):
    """Wants a column, and keeps what it is offered."""

    columns_wanted = frozenset({"behavior"})
    offered = None

    def connect(self, context):
        self.offered = context


def test_parts_say_what_they_want_and_are_offered_what_there_is():
    selector = Connected()
    buffer = ReplayBuffer(10, Combined(selector), KNN(3), Mixup())
    assert buffer.columns_wanted == {"behavior"} and not buffer.wants_goal_functions
    buffer.connect(Context(policy=torch.relu, device=torch.device("cpu")))
    assert selector.offered.policy is torch.relu and selector.offered.compute_reward is None
    assert ReplayBuffer(10).columns_wanted == frozenset()


def test_a_buffer_that_computes_rewards_wants_goal_functions_until_it_has_some():
    buffer = HER(capacity=10)
    assert buffer.wants_goal_functions
    buffer.connect(Context())
    assert buffer.wants_goal_functions, "there were none"
    buffer.connect(Context(compute_reward=max, compute_terminated=min))
    buffer.connect(Context(compute_reward=sum))
    assert not buffer.wants_goal_functions and buffer.synthesizer.compute_reward is max
    assert not HER(capacity=10, compute_reward=max).wants_goal_functions


def test_episodes_are_truncated():
    buffer, rows = Uniform(capacity=10), make(4, ends=0.0)
    buffer.add(rows)
    buffer.truncate_episodes([0, 7])
    assert buffer.storage[torch.arange(4)].truncated.tolist() == [False, False, False, True]


class Pair(Synthesizer):
    """Answers as the contract once was."""

    def __call__(self, anchors, neighbors, rng):
        return anchors, None


class Rows(Neighborhood):
    """Answers as the contract once was."""

    def gather(self, storage, slots, rng):
        return storage[slots.unsqueeze(1)], slots.unsqueeze(1)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"synthesizer": Pair()}, r"Pair returned a tuple; expected Synthesized\(rows, mix\)"),
        ({"neighborhood": Rows(), "synthesizer": Mixup()}, r"Rows returned a tuple; expected Neighbors\(slots\)"),
    ],
)
def test_answers_of_another_kind_are_named(parts, message):
    buffer = ReplayBuffer(10, **parts)
    buffer.add(make(5))
    with pytest.raises(TypeError, match=message):
        buffer.sample(3)


def interleaved(ids: bool) -> Transitions:
    """Rows of four environments in turn."""
    episodes = Episodes(envs=4, ends=0.0)
    return stack([episodes.row(number % 4) for number in range(100)], ids)


@pytest.mark.parametrize("arguments", [{"recipe": Uniform, "n_step": 3}, {"recipe": ContinuousTransition}])
def test_rows_of_several_environments_without_ids_are_noticed_once(arguments):
    recipe = arguments.pop("recipe", None)
    buffer = recipe(capacity=200, **arguments)
    arguments["recipe"] = recipe
    buffer.add(interleaved(ids=False))
    with pytest.warns(UserWarning, match=r"99 of 100 rows do not continue .* Transitions\(\.\.\., episode=ids\)"):
        buffer.sample(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.sample(8)


@pytest.mark.parametrize("n_step", [1, 3])
def test_nothing_is_said_where_links_are_there_or_do_not_matter(n_step):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_ids, one_env = (Uniform(capacity=200, n_step=n_step) for _ in "12")
        with_ids.add(interleaved(ids=True))
        one_env.add(make(100, ids=False, ends=0.3))
        plain = Uniform(capacity=200)
        plain.add(interleaved(ids=False))
        for buffer in (with_ids, one_env, plain):
            buffer.sample(8)


def test_printed_in_a_line():
    buffer = NMER(capacity=1_000, n_step=3, seed=0)
    buffer.add(make(60))
    assert repr(buffer) == "NMER(60 of 1,000 rows, n_step=3; Uniform, KNN, Mixup; cpu)"
    text = repr(buffer.sample(8))
    assert text.startswith("Sample(8 rows, ") and " blended: obs (8, 3) float32, actions (8, 2) float32, " in text
    assert "\n" not in text and len(text) < 400
    assert repr(Uniform(capacity=5)) == "Uniform(0 of 5 rows; Uniform, NoNeighbors, Identity; cpu)"
    assert repr(buffer.sample(8).transitions).startswith("Transitions(8 rows: obs (8, ") and "tensor" not in text


@pytest.mark.parametrize("arguments", [{}, {"n_step": 3}])
def test_float64_rewards_stay(arguments):
    rows = make(60, ends=0.0)
    for recipe in (Uniform, NMER):
        buffer = recipe(capacity=100, seed=0, **arguments)
        buffer.add(rows.replace(rewards=rows.rewards.double() + 1e-12))
        assert buffer.sample(8).transitions.rewards.dtype == torch.float64
        assert torch.equal(buffer.storage[torch.arange(60)].rewards, rows.rewards.double() + 1e-12)
