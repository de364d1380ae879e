"""Frames of stacks are stored once and returned bit-exactly, also with resets within unrolls."""

import numpy as np
import pytest
import torch

from interreplay.runs import state_files
from interreplay.unrolls.storage import insertion
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import TAGS, Unrolls, cat
from tests.unrolls.unroll_builders import same, unrolls

STACK, STEPS = 4, 6
TAGGED = (*TAGS, "fresh")


class Game:
    """Environments with stacks of random frames that reset on the step after an end.

    Args:
        padding: Other frames of the stack after a reset: copies of the first frame, zeros, or random frames.
        shape: Shape of a frame.
        ends: Probability of an end per step.
    """

    def __init__(self, padding: str, shape: tuple[int, ...] = (8, 8), ends: float = 0.2, envs: int = 3):
        self.padding, self.shape, self.ends, self.rng = padding, shape, ends, np.random.default_rng(0)
        self.stacks = [self.reset() for _ in range(envs)]
        self.over = [False] * envs
        self.count = self.resets = 0

    def frame(self) -> np.ndarray:
        return self.rng.integers(0, 256, self.shape).astype(np.uint8)

    def reset(self) -> np.ndarray:
        first = self.frame()
        others = {"repeat": [first] * (STACK - 1), "zeros": [np.zeros_like(first)] * (STACK - 1)}
        drawn = [self.frame() for _ in range(STACK - 1)]
        return np.stack([*others.get(self.padding, drawn), first])

    def step(self, env: int) -> None:
        if self.over[env]:
            self.stacks[env], self.over[env] = self.reset(), False
            self.resets += 1
            return
        self.stacks[env] = np.concatenate([self.stacks[env][1:], self.frame()[None]])
        self.over[env] = self.rng.random() < self.ends

    def unrolls(self, wrap: str | None = None) -> Unrolls:
        seen = [np.stack(self.stacks)]
        for _ in range(STEPS):
            for env in range(len(self.stacks)):
                self.step(env)
            seen.append(np.stack(self.stacks))
        obs = torch.from_numpy(np.stack(seen))
        made = unrolls(len(self.stacks), steps=STEPS, seed=self.count, first=self.count)
        self.count += len(self.stacks)
        if wrap is None:
            return made.replace(obs=obs)
        return made.replace(obs={wrap: obs, "speed": made.obs})


@pytest.mark.parametrize(
    ("padding", "shape", "wrap"),
    [("repeat", (8, 8), None), ("zeros", (5, 5), "screen"), ("others", (4, 4, 3), "screen")],
)
def test_stacks_are_returned_exactly_with_resets(padding, shape, wrap):
    game, store, rng, added = Game(padding, shape), UnrollStore(8, insertion.Reservoir()), np.random.default_rng(1), {}
    for _ in range(12):
        batch = game.unrolls(wrap)
        for number, slot in enumerate(store.add(batch, rng).tolist()):
            if slot >= 0:
                added[slot] = batch[number]
    assert game.resets > 10
    slots_read = torch.tensor([5, 0, 7, 7, 1])
    assert same(store[slots_read], cat([added[slot] for slot in slots_read.tolist()]), but=TAGGED)
    column = "obs" if wrap is None else "obs.screen"
    assert torch.equal(store.column(column, slots_read), cat([added[s] for s in slots_read.tolist()]).columns()[column])


def test_a_frame_is_stored_once():
    """An unroll without a reset takes T + k frames; a reset to a repeated frame takes no additional frame."""
    for padding, per_reset in [("repeat", 0), ("zeros", 1), ("others", STACK - 1)]:
        game, store = Game(padding), UnrollStore(100)
        for _ in range(20):
            store.add(game.unrolls(), np.random.default_rng(0))
        frames = store._frames["obs"].nbytes // 64
        assert frames <= 60 * (STEPS + STACK) + per_reset * game.resets
        assert frames >= 60 * (STEPS + STACK)


def test_frames_of_replaced_unrolls_are_reused():
    game, store, rng = Game("others"), UnrollStore(6), np.random.default_rng(0)
    sizes = []
    for _ in range(60):
        store.add(game.unrolls(), rng)
        sizes.append(store._frames["obs"].nbytes)
    assert max(sizes) <= 6 * (STEPS + 1) * STACK * 64 and max(sizes[30:]) <= 1.3 * max(sizes[:30])


def test_images_that_are_not_stacks_are_stored_whole():
    """The store grows if stacks stop moving on."""
    plain, rng = UnrollStore(4), np.random.default_rng(0)
    random = unrolls(2, steps=STEPS, obs=(STACK, 8, 8), obs_dtype=np.uint8)
    plain.add(random, rng)
    assert not plain._frames and same(plain[torch.arange(2)], random, but=TAGGED)
    game, store = Game("repeat", envs=2), UnrollStore(300)
    store.add(game.unrolls(), rng)
    added = []
    for number in range(150):
        batch = unrolls(2, steps=STEPS, obs=(STACK, 8, 8), obs_dtype=np.uint8, seed=number)
        slots = store.add(batch, rng)
        added.append((slots, batch))
    assert store._frames["obs"].nbytes > (300 * (STEPS + STACK) + 1024) * 64  # initial size
    for slots, batch in added[1:]:
        assert same(store[slots], batch, but=TAGGED)


def test_a_constant_stack_is_stored_once():
    still = torch.zeros((STEPS + 1, 1, STACK, 8, 8), dtype=torch.uint8) + torch.arange(STACK).view(STACK, 1, 1).byte()
    game, store = Game("repeat", envs=1, ends=0.0), UnrollStore(4)
    batch = game.unrolls()
    store.add(batch, np.random.default_rng(0))
    before = store._frames["obs"].nbytes
    slots = store.add(batch.replace(obs=still), np.random.default_rng(0))
    assert torch.equal(store[slots].obs, still) and store._frames["obs"].nbytes - before == STACK * 64


def test_a_restored_state_contains_the_frames(tmp_path):
    game, one, rng = Game("repeat"), UnrollStore(8), np.random.default_rng(0)
    for _ in range(4):
        one.add(game.unrolls("screen"), rng)
    state_files.save(tmp_path / "store", one.state_view())
    two = UnrollStore(8)
    two.load_state_dict(state_files.load(tmp_path / "store"))
    for _ in range(3):
        batch = game.unrolls("screen")
        one.add(batch, rng)
        two.add(batch, rng)
    everything = torch.arange(8)
    assert same(one[everything], two[everything]) and one.nbytes == two.nbytes
