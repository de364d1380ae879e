"""Replay for learners on a GPU: prioritized batches compared with TorchRL's, and batches of NMER.

    python -m benchmarks.gpu.priorities [--device cuda] [--rows 1000000] [--batch 256] [--repeats 11]

Buffers are full and hold rows with the widths of HalfCheetah. A prioritized step draws a batch, brings it to the
device, and updates the priorities of its rows by errors that are on the device. A step of NMER adds one row over the
oldest one and draws a batch, which is moved to the device unless it is there; indexing 10⁶ rows beforehand takes
minutes, see `--nmer_rows`. One update of SAC is measured at the same time.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.updates import Learn, described, measure_micros, ours, synchronize
from benchmarks.measure import installed, micros_table, single_thread
from benchmarks.speed.buffers import ACTION, EPISODE, OBS, portions
from interreplay import Transitions
from interreplay.buffer.catalogue import make_buffer
from interreplay.buffer.device_rows import WAITING
from interreplay.learning.captured import Stage, list_columns, make_batch

ALPHA = 0.6
BETA = 0.4
EPS = 1e-6
LATENT = 8
"""Dimension of the manifold near which the rows of NMER's buffer are."""
DISTINCT = 64
"""Number of error columns, which are used in turn."""


def filled(name: str, rows: int, device: torch.device) -> Any:
    """Return a full buffer of the catalog whose batches are on a device."""
    buffer = make_buffer(name, capacity=rows, seed=0, device=str(device))
    for columns in portions(rows):
        buffer.add(Transitions(**columns))
    return buffer


def draw_errors(batch: int, device: torch.device) -> Iterator[Tensor]:
    """Yield TD errors ``(batch,)`` on a device, without end."""
    torch.manual_seed(0)
    return itertools.cycle(torch.randn(DISTINCT, batch).abs().to(device).unbind())


def first_errors(rows: int) -> Tensor:
    """Return TD errors ``(rows,)`` of all rows, in main memory."""
    return torch.randn(rows, generator=torch.Generator().manual_seed(0)).abs()


# -- Prioritized replay ----------------------------------------------------------------------------


def our_per(rows: int, batch: int, device: torch.device) -> Learn:
    """Return steps of PER; each column of a batch is copied to the device."""
    buffer = filled("PER", rows, device)
    buffer.selector.update(torch.arange(rows), first_errors(rows))
    errors = draw_errors(batch, device)

    def step(count: int) -> None:
        for _ in range(count):
            buffer.update(buffer.sample(batch), next(errors))
        synchronize(device)

    return step


def our_per_in_one_copy(rows: int, batch: int, device: torch.device) -> Learn:
    """Return steps of PER; a batch is copied to the GPU in one piece, as `CapturedUpdate` copies it."""
    buffer = filled("PER", rows, torch.device("cpu"))
    buffer.selector.update(torch.arange(rows), first_errors(rows))
    errors = draw_errors(batch, device)
    stage = Stage(list_columns(make_batch(buffer.sample(batch))), device)

    def step(count: int) -> None:
        for _ in range(count):
            sample = buffer.sample(batch)
            stage.load(list_columns(make_batch(sample)))
            buffer.update(sample, next(errors))
        synchronize(device)

    return step


def torchrl_per(rows: int, batch: int, device: torch.device, storage: torch.device) -> Learn:
    """Return steps of TorchRL's prioritized buffer, whose trees are in main memory.

    Args:
        rows: Rows of the buffer.
        batch: Rows of a batch.
        device: Device of the batches.
        storage: Device of the stored rows.

    Raises:
        RuntimeError: TorchRL's compiled extension does not fit PyTorch.
    """
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=ALPHA, beta=BETA, eps=EPS, storage=LazyTensorStorage(rows, device=storage), batch_size=batch
    )
    for columns in portions(rows):
        named = {name: torch.from_numpy(column) for name, column in columns.items() if name != "episode"}
        buffer.extend(TensorDict(named, batch_size=[len(columns["rewards"])]))
    buffer.update_priority(torch.arange(rows), first_errors(rows))
    errors = draw_errors(batch, device)

    def step(count: int) -> None:
        for _ in range(count):
            sample = buffer.sample()
            sample.to(device)  # what a learner would use
            buffer.update_priority(sample["index"], next(errors))
        synchronize(device)

    return step


def prioritized(rows: int, batch: int, device: torch.device) -> dict[str, Learn]:
    """Return prioritized buffers by name."""
    found = {"ours, PER": our_per(rows, batch, device)}
    if device.type == "cuda":
        found["ours, PER, batch in one copy"] = our_per_in_one_copy(rows, batch, device)
    if not installed("torchrl"):
        return found
    memory = torch.device("cpu")
    try:
        found["TorchRL, rows in main memory"] = torchrl_per(rows, batch, device=device, storage=memory)
        if device.type == "cuda":
            found["TorchRL, rows on the GPU"] = torchrl_per(rows, batch, device=device, storage=device)
    except RuntimeError as error:
        print(f"TorchRL's prioritized buffer is left out: {error}", flush=True)
    return found


# -- NMER ------------------------------------------------------------------------------------------


def smooth_rows(count: int) -> Transitions:
    """Return rows of random episodes whose z = [s; a] is near an eight-dimensional manifold, as real data are."""
    rng = np.random.default_rng(0)
    episodes = -(-count // EPISODE)
    mixing = rng.normal(size=(LATENT, OBS + ACTION)) / 3.0
    latent = np.zeros((episodes, LATENT))
    z = np.empty((episodes, EPISODE + 1, OBS + ACTION), np.float32)
    for t in range(EPISODE + 1):
        latent = 0.95 * latent + 0.3 * rng.normal(size=latent.shape)
        z[:, t] = np.tanh(latent @ mixing) + 0.05 * rng.normal(size=(episodes, OBS + ACTION))
    now = z[:, :-1].reshape(-1, OBS + ACTION)[:count]
    following = z[:, 1:].reshape(-1, OBS + ACTION)[:count]
    return Transitions(
        obs=now[:, :OBS],
        actions=now[:, OBS:],
        rewards=rng.normal(size=count).astype(np.float32),
        next_obs=following[:, :OBS],
        terminated=np.zeros(count, bool),
        truncated=np.arange(1, count + 1) % EPISODE == 0,
        episode=np.arange(count) // EPISODE,
    )


def adding(name: str, rows: int, batch: int, device: torch.device) -> Learn:
    """Return steps that add a row to a full buffer and draw a batch; print how long filling the buffer took."""
    made = smooth_rows(rows + EPISODE)
    buffer: Any = make_buffer(name, capacity=rows, seed=0, device=str(device))
    start = time.perf_counter()
    buffer.add(made[:rows])  # all at once, which takes half the time for NMER
    print(f"{name}: {rows:,} rows added in {time.perf_counter() - start:.0f} s", flush=True)
    if name == "NMER":
        # The neighbors of half of the rows are due for another search, so that each added row causes as many searches
        # as in a buffer whose rows are replaced in turn.
        buffer.neighborhood.graph.seen[::2] = 0
    following = itertools.cycle([made[i : i + 1] for i in range(rows, rows + EPISODE)])

    def step(count: int) -> None:
        for _ in range(count):
            buffer.add(next(following))
            next(buffer.batches(batch, 1))
        synchronize(device)

    return step


# -- Tables ----------------------------------------------------------------------------------------


def measured(title: str, contenders: dict[str, Learn], steps: int, repeats: int) -> str:
    """Time steps, and return a table."""
    return micros_table(title, "step", measure_micros(contenders, steps, repeats))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default="cuda", help="device of the batches, cuda or cpu")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in each prioritized buffer")
    parser.add_argument("--nmer_rows", type=int, default=1_000_000, help="rows in NMER's buffer; 0 leaves NMER out")
    parser.add_argument(
        "--methods", nargs="+", default=["Uniform", "NMER", "DeviceNMER"], help="methods to which rows are added"
    )
    parser.add_argument("--batch", type=int, default=256, help="rows of a batch")
    parser.add_argument("--steps", type=int, default=200, help="steps per timed call of prioritized buffers")
    parser.add_argument("--repeats", type=int, default=11, help="timed calls of each contender")
    arguments = parser.parse_args()
    single_thread()
    device = arguments.device
    rows = arguments.rows
    nmer_rows = arguments.nmer_rows
    batch = arguments.batch
    timing = {"steps": arguments.steps, "repeats": arguments.repeats}
    print(described(device), flush=True)
    if rows:
        title = f"batch of {batch} from {rows:,} rows, then its priorities"
        print(f"\n{measured(title, prioritized(rows, batch, device), **timing)}\n", flush=True)
    if nmer_rows:
        contenders: dict[str, Learn] = {}
        if device.type == "cuda":
            contenders["one update of SAC, CUDA graph"] = ours([256, 256], batch)
        for name in arguments.methods:
            contenders[name] = adding(name, nmer_rows, batch=batch, device=device)
        title = f"one row added to {nmer_rows:,}, then a batch of {batch}"
        # DeviceNMER indexes `WAITING` rows at once, which each timed call contains once.
        print(f"\n{measured(title, contenders, steps=WAITING, repeats=arguments.repeats)}", flush=True)


if __name__ == "__main__":
    main()
