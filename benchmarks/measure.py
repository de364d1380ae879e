"""Helpers of all benchmarks: one thread, interleaved repeats and tables."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Timed = Callable[[], object]


def single_thread() -> None:
    """Limit torch and BLAS to one thread; call this before either is imported, if possible."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import torch

    torch.set_num_threads(1)


def interleaved(
    contenders: Mapping[str, Timed], repeats: int, warm_up: int = 2, clock: Callable[[], float] = time.perf_counter
) -> dict[str, np.ndarray]:
    """Time each contender `repeats` times, in turn, so that a busy moment of the machine affects all of them.

    Args:
        contenders: Functions to time, by name.
        repeats: Number of timed calls per contender.
        warm_up: Number of untimed calls per contender beforehand.
        clock: Function that returns seconds; `time.process_time` counts processor time only.

    Returns:
        Seconds per call ``(repeats,)`` by name.
    """
    for _ in range(warm_up):
        for run in contenders.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def per_step_table(title: str, micros: Mapping[str, np.ndarray]) -> str:
    """Return a markdown table of microseconds per env step ``(repeats,)`` by name, and their ratios to the first's."""
    base = next(iter(micros.values()))
    rows = []
    for name, values in micros.items():
        low, middle, high = (f"{q:.0f}" for q in np.quantile(values, [0.25, 0.5, 0.75]))
        rows.append([name, middle, f"{low}–{high}", f"{values.min():.0f}", f"{np.median(values / base):.2f}"])
    return table([title, "CPU µs per env step, median", "quartiles", "least", "× the first, median of pairs"], rows)


def micros_table(title: str, unit: str, micros: Mapping[str, np.ndarray]) -> str:
    """Return a markdown table of microseconds per unit ``(repeats,)`` by name, and their ratios to the first's.

    Args:
        title: Header of the names.
        unit: Unit of work that takes these microseconds, for example "update".
        micros: Microseconds of each repeat by name.
    """
    base = next(iter(micros.values()))
    rows = []
    for name, values in micros.items():
        low, middle, high = (f"{quantile:.1f}" for quantile in np.quantile(values, [0.25, 0.5, 0.75]))
        rows.append([name, middle, f"{low}–{high}", f"{np.median(values / base):.2f}"])
    return table([title, f"µs per {unit}, median", "quartiles", "× the first"], rows)
