"""The contract of every method of the catalog."""

import copy
import functools

import numpy as np
import pytest
from builders import HALF_CHEETAH, KINDS, same_state, unwritten_memory_holds

import replay_buffers
from interreplay import ReplayBuffer
from interreplay.buffer.sample_weight_decay import SWD
from interreplay.diagnostics import contract
from interreplay.diagnostics.contract import Subject
from interreplay.neighborhood import KNN, ClusterCenter
from interreplay.selection import Faded
from interreplay.storage.state_copies import copy_arrays


def distance(achieved, desired, info):
    """Reward of an achieved and a desired goal."""
    return -np.linalg.norm(achieved - desired, axis=-1)


def near(achieved, desired, info):
    """Termination of an achieved and a desired goal, one row at a time."""
    return bool(np.linalg.norm(achieved - desired) < 0.3)


def size_of_reward(rows, names):
    """Scores rows by their rewards."""
    return {name: rows.rewards.abs() for name in names}


GOALS = {"obs_shape": {"achieved_goal": (2,), "desired_goal": (2,), "observation": (3,)}}
HER = functools.partial(replay_buffers.HER, compute_reward=distance, compute_terminated=near)
HINDSIGHT = {
    "HER": HER,
    "HER with NMER": lambda **arguments: HER(neighborhood=KNN(k=3), **arguments),
    # Cluster means belong to no episode.
    "HER with LCER": lambda **arguments: HER(neighborhood=ClusterCenter(n_clusters=5), **arguments),
}
VARIANTS = {name: getattr(replay_buffers, name) for name in replay_buffers.__all__} | HINDSIGHT
VARIANTS |= {
    "LaBER": functools.partial(replay_buffers.LaBER, score=size_of_reward),
    "ERE, few": functools.partial(replay_buffers.ERE, c_min=5),
    "EventTables, short": functools.partial(
        replay_buffers.EventTables, events=["reward > 1", "terminated"], shares=[0.15, 0.05], history=2
    ),
    "SWD": SWD,
    "Faded": lambda **arguments: ReplayBuffer(selector=Faded(rate=0.98), **arguments),
    "LCER, member": functools.partial(replay_buffers.LCER, variant="member"),
}
RANKS_ROWS = {"Attentive", "Elite", "LaBER"}  # reported probabilities are those of candidates
ANY_WEIGHTS = {"LaBER", "LA3P"}  # weights above 1, or 0 for rows that only the actor learns from
# Without an algorithm there is no policy, which causes one warning.
pytestmark = pytest.mark.filterwarnings("ignore:Elite has no policy")


def rows_for(name):
    """Return arguments of `Episodes` for rows that a method accepts."""
    return GOALS if name in HINDSIGHT else {}


@pytest.fixture(params=VARIANTS, name="subject")
def _subject(request):
    name = request.param
    return Subject(VARIANTS[name], rows_for(name), ranks_rows=name in RANKS_ROWS, any_weights=name in ANY_WEIGHTS)


def test_shapes_dtypes_and_finiteness(subject):
    for rows in (1, 2, 20):
        contract.shapes_and_dtypes(subject, rows, **subject.rows)
    for kind in (*KINDS.values(), HALF_CHEETAH):
        contract.shapes_and_dtypes(subject, 150, **kind | subject.rows)


WITH_ROWS = (contract.shapes_and_dtypes, contract.state_in_memory, contract.copies_are_independent)
"""Checks that other tests run with several numbers of rows."""


@pytest.mark.parametrize("check", [check for check in contract.CHECKS if check not in WITH_ROWS], ids=contract.title)
def test_the_contract(subject, check):
    check(subject)


def test_batches_of_all_methods_except_online_are_random(subject):
    assert subject.is_random != isinstance(subject.empty(), replay_buffers.Online)


def test_a_state_gives_the_same_batches_in_a_new_buffer_and_in_the_old_one(subject):
    contract.state_in_memory(subject, rows=10)  # `state_on_disk` continues a full buffer


def test_equal_runs_have_equal_states(subject):
    """A state contains no uninitialized memory, which differs between processes."""
    states = []
    for byte in (0x11, 0x99):
        with unwritten_memory_holds(byte):
            buffer = subject.make_filled(60)
            subject.use(buffer)
            buffer.add(subject.random_rows(3, seed=9))  # rows that wait until neighbors are drawn
            states.append(copy_arrays(buffer.state_dict()))
    same_state(*states)


def test_copies_are_independent(subject):
    contract.copies_are_independent(subject, 0, copy.deepcopy)
    contract.copies_are_independent(subject, 150, contract.copy_by_pickling)


def test_batches_can_only_be_split_into_equal_parts():
    with pytest.raises(ValueError, match="cannot split 12 rows into batches of 8"):
        Subject(replay_buffers.Uniform).make_filled().sample(12).split(8)


def test_unknown_arguments_are_rejected(subject):
    with pytest.raises(TypeError, match="argument 'alhpa'"):
        subject.create(capacity=10, alhpa=1)
    with pytest.raises(TypeError, match="positional argument"):
        subject.create(10)
