"""Transitions: shapes, shared memory, indexing and blending."""

import pickle

import numpy as np
import pytest
import torch
from builders import identical, make

from interreplay import Transitions

DICT = {"obs_shape": {"a": (3,), "b": (2,)}}


def columns(n: int = 4) -> dict:
    zeros = np.zeros(n, np.float32)
    return {
        "obs": np.ones((n, 3), np.float32),
        "actions": np.ones((n, 2), np.float32),
        "rewards": zeros,
        "next_obs": np.ones((n, 3), np.float32),
        "terminated": zeros,
        "truncated": zeros.astype(bool),
    }


def test_numpy_arrays_and_tensors_are_not_copied():
    given = columns()
    given["actions"] = torch.ones(4, 2)
    rows = Transitions(**given)
    given["obs"][0] = 7
    assert rows.obs[0].tolist() == [7, 7, 7]
    assert rows.actions is given["actions"]
    assert rows.terminated.dtype == torch.bool and len(rows) == 4


def test_read_only_arrays_are_copied():
    given = columns()
    given["obs"].flags.writeable = False
    assert Transitions(**given).obs.tolist() == given["obs"].tolist()


def test_flipped_arrays_and_foreign_byte_orders_are_copied():
    images = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)[:, :, ::-1]
    rewards = np.arange(4, dtype=">f4")[::-1]
    rows = Transitions(**columns() | {"obs": images, "next_obs": images, "rewards": rewards})
    assert rows.obs.tolist() == images.tolist()
    assert rows.rewards.dtype == torch.float32 and rows.rewards.tolist() == [3, 2, 1, 0]


def test_rewards_are_converted_to_float32():
    for rewards in ([1, 2, 3, 4], np.array([1, 0, 1, 0], bool), np.arange(4)):
        found = Transitions(**columns() | {"rewards": rewards}).rewards
        assert found.dtype == torch.float32 and found.tolist() == [float(reward) for reward in rewards]


def test_columns_of_wrong_shape_are_rejected():
    for name in ("obs", "actions", "next_obs", "terminated", "truncated", "episode", "discounts"):
        with pytest.raises(ValueError, match=f"{name} has shape"):
            Transitions(**columns() | {name: np.zeros(3)})
    for name in ("rewards", "terminated", "truncated", "episode", "discounts"):
        with pytest.raises(ValueError, match=r"has shape \(4, 1\); expected \(4,\)"):
            Transitions(**columns() | {name: np.zeros((4, 1))})
    with pytest.raises(ValueError, match="extras.goal has shape"):
        Transitions(**columns(), extras={"goal": np.zeros(3)})
    with pytest.raises(ValueError, match="rewards"):
        Transitions(**{name: value[0] for name, value in columns().items()})


def test_floats_that_are_not_whole_are_rejected():
    for name, wrong, message in (
        ("terminated", 0.5, "terminated holds 0.5; expected 0 or 1"),
        ("truncated", np.nan, "truncated holds nan; expected 0 or 1"),
        ("episode", 0.75, "episode holds 0.75; expected integers"),
    ):
        with pytest.raises(ValueError, match=message):
            Transitions(**columns() | {name: np.array([0.0, wrong, 1.0, 0.0], np.float32)})
        whole = Transitions(**columns() | {name: np.array([0.0, 1.0, 1.0, 0.0])})
        assert getattr(whole, name).tolist() == [0, 1, 1, 0]


def test_names_of_columns():
    rows = make(4, **DICT).replace(extras={"x": torch.zeros(4)})
    names = "obs.a obs.b actions rewards next_obs.a next_obs.b terminated truncated episode extras.x"
    assert list(rows.columns()) == names.split()


def test_indexing_by_tensor_slice_and_mask():
    rows = make(6, **DICT).replace(extras={"x": torch.arange(6)})
    identical(rows[torch.tensor([5, 0])][torch.tensor([1])], rows[:1])
    mask = torch.tensor([True, False, False, False, False, True])
    assert rows[mask].extras["x"].tolist() == [0, 5]


def test_where():
    one, other = make(5, seed=1, **DICT), make(5, seed=2, **DICT)
    keep = torch.tensor([True, False, True, True, False])
    mixed = one.where(keep, other)
    identical(mixed[keep], one[keep])
    identical(mixed[~keep], other[~keep])


def test_blends_with_lambda_0_and_1_are_exact():
    one, other = make(50, seed=1), make(50, seed=2)
    identical(one.blend(other, torch.ones(50)), one)
    identical(one.blend(one, torch.rand(50)), one)
    assert torch.equal(one.blend(other, torch.zeros(50)).obs, other.obs)


def test_pickle():
    rows = make(4, **DICT)
    identical(pickle.loads(pickle.dumps(rows)), rows)
