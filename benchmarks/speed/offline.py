"""Recorded experience: opening it the first and the second time, memory of several readers, batches of two sources.

    python -m benchmarks.speed.offline [--rows 1000000] [--readers 4] [--repeats 1000]

The data is a saved replay buffer of HalfCheetah's shape. Readers are separate processes, all of which have read every
row before the pages of the mapped rows are counted. A batch of a mix includes all columns that an update learns from;
batches of its sources alone are drawn in turn with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table

READER = """
import sys
from pathlib import Path
from interreplay.experience.offline_data import open_rows
storage = open_rows(sys.argv[1])
rows = storage.records.rows
rows.sum(dtype=int)
address = rows.data_ptr()
print("read", flush=True)
sys.stdin.readline()
found, inside = {}, False
for line in Path("/proc/self/smaps").read_text().splitlines():
    head = line.split()[0]
    if "-" in head and ":" not in head:
        low, high = (int(end, 16) for end in head.split("-"))
        inside = low <= address < high
    elif inside and line.endswith("kB"):
        found[head[:-1]] = int(line.split()[1])
print(found["Rss"], found["Pss"], found["Private_Dirty"] + found["Anonymous"], flush=True)
sys.stdin.readline()
"""


def saved_buffer(folder: Path, rows: int) -> Path:
    """Write a full replay buffer of random rows and return its path."""
    from benchmarks.speed.buffers import ours
    from interreplay.runs import state_files

    state_files.save(folder / "buffer", ours("Uniform", rows).state_view())
    return folder / "buffer"


def openings(data: Path) -> str:
    """Return a table of the seconds to open the data for the first and for the second time."""
    import torch

    from interreplay.experience.offline_data import open_rows

    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        storage = open_rows(str(data))
        storage.read(torch.from_numpy(np.random.default_rng(0).integers(0, len(storage), 256)), 0.99)
        seconds.append(time.perf_counter() - begun)
    return table(
        ["opening", "seconds"], [["first: read and copied", f"{seconds[0]:.1f}"], ["second", f"{seconds[1]:.2f}"]]
    )


def memory(data: Path, readers: int) -> str:
    """Return a table of the memory of the mapped rows in several concurrent processes."""
    words = [sys.executable, "-c", READER, str(data)]
    running = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(readers)
    ]
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "read\n"
    found = [reported_memory(process) for process in running]  # while all of them are running
    for process in running:
        process.communicate("\n")
    rss, shares, own = (np.array(column) / 1024 for column in zip(*found, strict=True))
    rows = [["rows of one reader", f"{rss[0]:.0f}"], [f"rows of {readers} readers together", f"{shares.sum():.0f}"]]
    return table(["MB", ""], [*rows, ["pages that one has for itself", f"{own.max():.0f}"]])


def reported_memory(process: subprocess.Popen[str]) -> list[int]:
    """Return the memory that a reader reports, in KB."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return [int(number) for number in process.stdout.readline().split()]


def batches(data: Path, repeats: int) -> str:
    """Return a table of the processor time of a batch from two sources, compared with batches of each source alone."""
    from benchmarks.speed.buffers import ours
    from interreplay import Mix, Offline

    lines = []
    for online, offline in (("Uniform", "Uniform"), ("PER", "Uniform"), ("NMER", "Uniform"), ("NMER", "NMER")):
        sources = {"online": ours(online, 100_000), "offline": Offline(str(data), offline, seed=1)}
        mix = Mix(sources)

        def own(sources: dict[str, Any] = sources) -> None:
            for source in sources.values():
                source.sample(128)

        timed = interleaved({"mix": partial(mix.sample, 256), "own": own}, repeats, 20, time.process_time)
        both, alone = (float(np.median(timed[name])) * 1e6 for name in ("mix", "own"))
        lines.append([online, offline, f"{alone:.0f}", f"{both:.0f}", f"{both / alone:.2f}"])
    return table(["online", "offline", "own draws, µs", "mix, µs", "ratio"], lines)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch-rows", type=int, default=100_000, help="recorded rows of the batches' part")
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=1_000)
    given = parser.parse_args()
    single_thread()
    with tempfile.TemporaryDirectory() as place:
        os.environ["INTERREPLAY_CACHE"] = place
        data = saved_buffer(Path(place, "many"), given.rows)
        print(openings(data), memory(data, given.readers), sep="\n\n", end="\n\n", flush=True)
        print(batches(saved_buffer(Path(place, "few"), given.batch_rows), given.repeats))


if __name__ == "__main__":
    main()
