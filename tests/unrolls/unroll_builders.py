"""Random unrolls with distinct columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from interreplay.unrolls.unrolls import Unrolls


def unrolls(
    size: int,
    steps: int = 4,
    obs: Any = (3,),
    obs_dtype: Any = np.float32,
    seed: int = 0,
    outputs: int = 2,
    state: Mapping[str, tuple[int, ...]] | None = None,
    first: int = 0,
) -> Unrolls:
    """Return `size` unrolls; `version` numbers them starting at `first`.

    Args:
        obs: Shape of an observation, or a dict of shapes of its parts.
        obs_dtype: Dtype of observations.
        outputs: F, number of policy outputs.
        state: Shapes of the recurrent state.
    """
    rng = np.random.default_rng(seed)
    kind = np.dtype(obs_dtype)

    def observed(shape: tuple[int, ...]) -> np.ndarray:
        whole = (steps + 1, size, *shape)
        drawn = rng.normal(size=whole) if kind.kind == "f" else rng.integers(0, 2 if kind.kind == "b" else 256, whole)
        return drawn.astype(kind)

    return Unrolls(
        obs={name: observed(shape) for name, shape in obs.items()} if isinstance(obs, Mapping) else observed(obs),
        actions=rng.integers(0, outputs, (steps, size)),
        rewards=rng.normal(size=(steps, size)),
        terminated=rng.random((steps, size)) < 0.1,
        live=rng.random((steps, size)) < 0.9,
        policy=rng.normal(size=(steps, size, outputs)).astype(np.float32),
        values=rng.normal(size=(steps, size)),
        state={name: rng.normal(size=(size, *shape)).astype(np.float32) for name, shape in (state or {}).items()},
        version=np.arange(first, first + size),
    )


def learn(
    mix: Any, rng: np.random.Generator, first: int, last: int, added: int = 3, size: int = 6, **shapes: Any
) -> list[Unrolls]:
    """Add `added` unrolls, draw batches of `size` and report results, as a learner does; return the batches."""
    drawn = []
    for number in range(first, last):
        mix.anneal(number / 20)
        mix.add(unrolls(added, seed=number, first=added * number, **shapes), rng)
        if mix.ready(size):
            batch = mix.batch(size, rng)
            mix.update(batch, batch.policy * 1.1, batch.rewards.abs().mean(0))
            again = mix.to_refresh(rng)
            if again is not None:
                mix.update(again, again.policy * 0.9)
            drawn.append(batch)
    return drawn


def same(one: Unrolls, other: Unrolls, but: tuple[str, ...] = ()) -> bool:
    """Return whether all columns except `but` have equal names, dtypes and values."""
    mine, others = one.columns(), other.columns()
    return mine.keys() == others.keys() and all(
        column.dtype == others[name].dtype and torch.equal(column, others[name])
        for name, column in mine.items()
        if name not in but
    )
