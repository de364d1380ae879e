"""Helpers of all benchmarks: one thread, interleaved repeats and tables."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

Timed = Callable[[], object]


def single_thread() -> None:
    """Limit torch and BLAS to one thread; call this before either is imported, if possible."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import torch

    torch.set_num_threads(1)


def quiet_single_thread() -> None:
    """Limit torch and BLAS to one thread, and hide warnings and Ray's messages."""
    single_thread()
    warnings.simplefilter("ignore")
    logging.getLogger("ray").setLevel(logging.ERROR)


def installed(package: str) -> bool:
    """Return whether a package is installed; if it is not, print that it is left out."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{package} is not installed and is left out", flush=True)
    return found


def require(*packages: str, install: str = '.venv/bin/pip install -e ".[bench]"') -> None:
    """End the program with one line if a package that it compares with is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} is missing; {install}")


def existing(text: str) -> Path:
    """Return the path in an argument; ``argparse`` reports one that does not exist."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return path


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


def cached(path: Path | None, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the array in a ``.npy`` file; if there is none, make it, and write it if there is a path."""
    if path is not None and path.exists():
        return np.load(path)
    found = make()
    if path is not None:
        np.save(path, found)
    return found


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file that appears completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    part.rename(path)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def medians_table(
    head: Sequence[str], values: Mapping[str, np.ndarray], ratios: Mapping[str, np.ndarray], digits: int = 1
) -> str:
    """Return a markdown table with the median and the quartiles of values, and the median of ratios.

    Args:
        head: Headers of the four columns.
        values: Value of each repeat ``(repeats,)`` by name.
        ratios: Ratio of each repeat ``(repeats,)`` by name.
        digits: Decimals of the values.
    """
    rows = []
    for name, of_name in values.items():
        low, middle, high = (f"{quantile:.{digits}f}" for quantile in np.quantile(of_name, [0.25, 0.5, 0.75]))
        rows.append([name, middle, f"{low}–{high}", f"{np.median(ratios[name]):.2f}"])
    return table(head, rows)


def millis_table(title: str, base: str, seconds: Mapping[str, np.ndarray]) -> str:
    """Return a markdown table of milliseconds per call, and their ratios to the first contender, which `base` names."""
    first = next(iter(seconds.values()))
    rows = []
    for name, values in seconds.items():
        ratio = np.median(values / first)
        rows.append([name, f"{1e3 * np.median(values):.2f}", f"{ratio:.2f}", f"{1e3 * values.min():.2f}"])
    return table([title, "ms, median", f"× {base}, median of pairs", "ms, least"], rows)


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
    ratios = {name: values / base for name, values in micros.items()}
    return medians_table([title, f"µs per {unit}, median", "quartiles", "× the first"], micros, ratios)
