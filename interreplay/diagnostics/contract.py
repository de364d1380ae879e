"""The contract of replay buffers as checks: shapes, seeds, states, copies and sampling frequencies.

`tests/test_contract.py` applies them to the catalog, `interreplay check module:Class` to a user's part or buffer. The
first line of a check's docstring states its requirement.
"""

from __future__ import annotations

import copy
import functools
import pickle
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import chisquare

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.sample import Sample
from interreplay.diagnostics.random_rows import Episodes, make
from interreplay.runs import state_files
from interreplay.storage.state_copies import attributes, copy_arrays
from interreplay.transitions import Transitions

BATCH = 64
CAPACITY = 100
Duplicate = Callable[[ReplayBuffer], ReplayBuffer]


class ContractError(AssertionError):
    """A check failed. The message states what was found and what was expected."""


@dataclass(frozen=True)
class Subject:
    """A replay buffer to check, created by `create` with the keywords ``capacity`` and ``seed``.

    `rows` are arguments of `Episodes` for rows that it accepts. If it ranks rows, probabilities refer to candidates.
    With `any_weights`, weights may be 0 or exceed 1.
    """

    create: Callable[..., ReplayBuffer]
    rows: Mapping[str, Any] = field(default_factory=dict)
    ranks_rows: bool = False
    any_weights: bool = False

    def empty(self, capacity: int = CAPACITY, seed: int | None = 0) -> ReplayBuffer:
        """Return an empty buffer."""
        return self.create(capacity=capacity, seed=seed)

    def make_filled(self, rows: int = 150, capacity: int = CAPACITY, seed: int | None = 0) -> ReplayBuffer:
        """Return a buffer with `rows` random rows."""
        buffer = self.empty(capacity, seed)
        episodes = Episodes(envs=2, **self.rows)
        chunk = max(10, rows // 5)
        for start in range(0, rows, chunk):
            buffer.add(episodes.transitions(min(chunk, rows - start)))
        return buffer

    def random_rows(self, count: int, **arguments: Any) -> Transitions:
        """Return `count` random rows; further arguments as for `Episodes`."""
        return make(count, **{**self.rows, **arguments})

    def use(self, buffer: ReplayBuffer) -> None:
        """Add rows, sample and update several times."""
        episodes = Episodes(seed=77, envs=2, **self.rows)
        for step in range(3):
            buffer.add(episodes.transitions(7))
            learn(buffer, buffer.sample(32), np.random.default_rng(step).normal(size=32))
            buffer.anneal((step + 1) / 10)

    def continue_buffer(self, buffer: ReplayBuffer) -> list[Sample]:
        """Return the next batches of a buffer with other calls between them."""
        samples = []
        for _ in range(3):
            samples.append(buffer.sample(BATCH))
            self.use(buffer)
        return [*samples, buffer.sample(BATCH)]

    @property
    def is_random(self) -> bool:
        """Whether drawing a batch advances the buffer's random generator."""
        buffer = self.make_filled()
        before = buffer.rng.bit_generator.state
        buffer.sample(BATCH)
        return bool(buffer.rng.bit_generator.state != before)


def require(condition: object, message: str) -> None:
    """Raise `ContractError` with a message unless a condition is true."""
    if not condition:
        raise ContractError(message)


def learn(buffer: ReplayBuffer, sample: Sample, errors: Any) -> None:
    """Update with errors ``(n,)`` and the scores that the buffer requests."""
    buffer.update(sample, errors, {name: np.asarray(errors) ** 2 for name in buffer.scores_wanted})


def identical(one: Transitions, other: Transitions) -> None:
    """Require that the columns of two transitions are identical."""
    _require_equal(one.columns(), other.columns())


def require_same_samples(one: Any, other: Any) -> None:
    """Require that two samples are identical."""
    names = ("slots", "probabilities", "neighbor_slots", "weights", "mix")
    mine = attributes(one, names)
    theirs = attributes(other, names)
    _require_equal(mine | one.transitions.columns(), theirs | other.transitions.columns())


def _require_equal(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Require that tensors have equal names, values and dtypes."""
    try:
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    except AssertionError as error:
        raise ContractError(f"expected equal values: {error}") from None


def shapes_and_dtypes(subject: Subject, rows: int = 150, **kind: Any) -> None:
    """Batches have the shapes and dtypes of the rows that were added, and finite values."""
    given = subject.random_rows(rows, envs=2, **kind)
    buffer = subject.empty()
    buffer.add(given)
    sample = buffer.sample(BATCH)
    columns = given.replace(discounts=torch.zeros_like(given.rewards)).columns()
    returned = sample.transitions.columns()
    require(set(returned) == set(columns), f"columns are {sorted(returned)}; expected {sorted(columns)}")
    require(len(sample) == len(sample.transitions) == BATCH, f"{len(sample)} rows; expected {BATCH}")
    for name, column in returned.items():
        shape = (BATCH, *columns[name].shape[1:])
        dtype = columns[name].dtype
        require(tuple(column.shape) == shape, f"{name} has shape {tuple(column.shape)}; expected {shape}")
        require(column.dtype == dtype, f"{name} is of {column.dtype}; expected {dtype}")
        require(column.device == buffer.device, f"{name} is on {column.device}; expected {buffer.device}")
        require(not column.is_floating_point() or torch.isfinite(column).all(), f"{name} has non-finite values")
    for name in ("slots", "weights", "neighbor_slots", "probabilities"):
        shape = tuple(getattr(sample, name).shape)
        require(shape == (BATCH,), f"{name} has shape {shape}; expected ({BATCH},)")
    for name in ("slots", "neighbor_slots"):
        dtype = getattr(sample, name).dtype
        require(dtype is torch.int64, f"{name} is of {dtype}; expected torch.int64")
    weights = sample.weights
    require(weights.dtype is torch.float32, f"weights are of {weights.dtype}; expected torch.float32")
    require(torch.isfinite(weights).all(), "weights have non-finite values")
    usual = ((weights > 0) & (weights <= 1)).all()
    found = f"weights are between {float(weights.min())} and {float(weights.max())}"
    require(subject.any_weights or usual, f"{found}; expected more than 0 and at most 1")
    for each in (weights, sample.actor_weights):
        require(each is None or ((each >= 0).all() and each.shape == (BATCH,)), f"{found}; expected none below 0")
    mix = sample.mix
    in_range = mix is None or (mix.shape == (BATCH,) and ((mix >= 0) & (mix <= 1)).all())
    require(in_range, f"mix is {mix}; expected {BATCH} numbers from 0 to 1")


def only_stored_rows(subject: Subject) -> None:
    """Only stored rows are drawn, and no anchor is its own neighbor."""
    for rows in (1, 2, 37):
        buffer = subject.empty()
        buffer.add(subject.random_rows(rows, ends=0.0))
        for _ in range(20):
            sample = buffer.sample(BATCH)
            for name, least in (("slots", 0), ("neighbor_slots", -1)):
                slots = getattr(sample, name)
                found = f"{name} are between {int(slots.min())} and {int(slots.max())} with {rows} stored rows"
                require(slots.min() >= least and slots.max() < rows, f"{found}; expected {least} to {rows - 1}")
            require(
                (sample.neighbor_slots != sample.slots).all(), "an anchor is its own neighbor; expected another row"
            )


def frequencies(subject: Subject) -> None:
    """Each row is drawn as often as its probability states."""
    rows = 30
    buffer = subject.make_filled(capacity=rows)
    counts = np.zeros(rows)
    probabilities = np.zeros(rows)
    for _ in range(100):
        sample = buffer.sample(128)
        counts += np.bincount(sample.slots.numpy(), minlength=rows)
        probabilities[sample.slots.numpy()] = sample.probabilities.numpy()
    if subject.ranks_rows:
        uniform = np.allclose(probabilities[counts > 0], 1 / rows)
        require(uniform, f"probabilities differ from a candidate's, 1 / {rows}")
        return
    total = probabilities.sum()
    require(abs(total - 1.0) < 1e-5, f"the probabilities of all rows have the sum {total:.6g}; expected 1")
    drawn = probabilities > 0
    if drawn.sum() == 1:
        return
    pvalue = chisquare(counts[drawn], (probabilities / total * counts.sum())[drawn]).pvalue
    require(pvalue > 1e-4, f"draws and probabilities disagree (chi-square test, p = {pvalue:.1g}); expected p > 0.0001")


def one_seed_one_result(subject: Subject) -> None:
    """Two buffers with one seed give the same batches."""
    one = subject.make_filled()
    other = subject.make_filled()
    for _ in range(3):
        subject.use(one)
        subject.use(other)
        require_same_samples(one.sample(BATCH), other.sample(BATCH))


def other_seeds_other_results(subject: Subject) -> None:
    """Buffers with different seeds, or with none, give different batches, unless nothing is drawn at random."""
    if not subject.is_random:
        return
    for one, other in ((0, 1), (None, None)):
        first = subject.make_filled(seed=one).sample(BATCH)
        second = subject.make_filled(seed=other).sample(BATCH)
        columns = second.transitions.columns()
        equal = torch.equal(first.slots, second.slots)
        for name, column in first.transitions.columns().items():
            equal = equal and torch.equal(column, columns[name])
        require(not equal, f"the seeds {one} and {other} give the same batch; expected different ones")


def several_batches(subject: Subject) -> None:
    """Several batches of one call equal those of single calls."""
    buffer = subject.make_filled()
    twin = subject.make_filled()
    independent = all(part.independent_rows for part in buffer.parts.values())
    expected = iter(twin.sample(24).split(8)) if independent else (twin.sample(8) for _ in range(3))
    for step, batch in enumerate(buffer.batches(8, 3)):
        sizes = {len(batch), len(batch.transitions), len(batch.weights)}
        require(sizes == {8}, f"a batch has {sorted(sizes)} rows; expected 8")
        alone = next(expected)
        require_same_samples(batch, alone)
        errors = np.random.default_rng(step).normal(size=8)
        learn(buffer, batch, errors)
        learn(twin, alone, errors)


def storage_is_untouched(subject: Subject) -> None:
    """Sampling, and changing a batch in place, leaves the stored rows untouched."""
    buffer = subject.make_filled()
    before = copy_arrays(buffer.storage.state_dict())
    slots = torch.arange(CAPACITY)
    rows = buffer.storage[slots]
    for _ in range(5):
        sample = buffer.sample(BATCH)
        for column in sample.transitions.columns().values():
            column.zero_()
        learn(buffer, sample, np.ones(BATCH))
    identical(buffer.storage[slots], rows)
    require(torch.equal(buffer.storage.state_dict()["rows"], before["rows"]), "the stored rows have changed")
    require(buffer.storage.written == before["written"], "the number of rows that were written has changed")


def state_in_memory(subject: Subject, rows: int = 150) -> None:
    """A state gives the same batches in a new buffer and in the old one."""
    buffer = subject.make_filled(rows)
    subject.use(buffer)
    saved = buffer.state_dict()
    expected = subject.continue_buffer(buffer)
    fresh = subject.empty(seed=5)
    fresh.load_state_dict(copy.deepcopy(saved))
    buffer.load_state_dict(saved)
    for again in (fresh, buffer):
        for one, other in zip(subject.continue_buffer(again), expected, strict=True):
            require_same_samples(one, other)


def state_on_disk(subject: Subject) -> None:
    """A state that was saved to disk gives the same batches."""
    buffer = subject.make_filled()
    subject.use(buffer)
    fresh = subject.empty(seed=None)
    with tempfile.TemporaryDirectory() as folder:
        state_files.save(Path(folder) / "state", buffer.state_view())
        fresh.load_state_dict(state_files.load(Path(folder) / "state"))
        for one, other in zip(subject.continue_buffer(fresh), subject.continue_buffer(buffer), strict=True):
            require_same_samples(one, other)


def state_of_an_empty_buffer(subject: Subject) -> None:
    """The state of an empty buffer can be loaded."""
    fresh = subject.empty(seed=1)
    expected = subject.empty()
    fresh.load_state_dict(subject.empty().state_dict())
    for buffer in (fresh, expected):
        buffer.add(subject.random_rows(50))
    require_same_samples(fresh.sample(BATCH), expected.sample(BATCH))


def copy_by_pickling(buffer: ReplayBuffer) -> ReplayBuffer:
    """Return a copy of a buffer by pickling."""
    return pickle.loads(pickle.dumps(buffer))


def copies_are_independent(subject: Subject, rows: int = 150, duplicate: Duplicate = copy_by_pickling) -> None:
    """A copy gives the same batches as the original, and shares nothing with it."""
    buffer = subject.make_filled(rows)
    other = duplicate(buffer)
    subject.use(buffer)
    subject.use(other)
    require_same_samples(buffer.sample(BATCH), other.sample(BATCH))
    buffer.add(subject.random_rows(50, seed=99))
    buffer.sample(8)
    untouched = duplicate(other)
    require_same_samples(other.sample(BATCH), untouched.sample(BATCH))


def late_updates(subject: Subject) -> None:
    """TD errors of rows that have been overwritten have no effect."""
    one = subject.make_filled()
    other = subject.make_filled()
    sample = one.sample(BATCH)
    other.sample(BATCH)
    for buffer in (one, other):
        buffer.add(subject.random_rows(CAPACITY, seed=3))
    learn(one, sample, np.full(BATCH, 1e3))
    require_same_samples(one.sample(BATCH), other.sample(BATCH))


def wrong_errors(subject: Subject) -> None:
    """TD errors of another shape than (n,) are rejected with a ValueError."""
    buffer = subject.make_filled()
    sample = buffer.sample(16)
    for wrong in (torch.zeros(16, 1), np.zeros((1, 16)), torch.zeros(15), 0.5):
        _rejects(functools.partial(buffer.update, sample, wrong), f"TD errors of shape {np.shape(wrong)}")


def wrong_capacity(subject: Subject) -> None:
    """Capacities below 1 are rejected with a ValueError."""
    for capacity in (0, -1):
        _rejects(functools.partial(subject.empty, capacity), f"the capacity {capacity}")


def _rejects(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except ValueError:
        return
    raise ContractError(f"{what} is accepted; expected a ValueError")


CHECKS: tuple[Callable[[Subject], None], ...] = (
    shapes_and_dtypes,
    only_stored_rows,
    frequencies,
    one_seed_one_result,
    other_seeds_other_results,
    several_batches,
    storage_is_untouched,
    state_in_memory,
    state_on_disk,
    state_of_an_empty_buffer,
    copies_are_independent,
    late_updates,
    wrong_errors,
    wrong_capacity,
)


def title(check: Callable[[Subject], None]) -> str:
    """Return the requirement of a check in one line."""
    return (check.__doc__ or check.__name__).splitlines()[0].rstrip(".")
