"""Run the speed benchmarks of the results page in turn: ``python -m benchmarks``, or ``make bench``."""

from __future__ import annotations

import subprocess
import sys

MODULES = (
    "speed.buffers",
    "speed.nmer",
    "speed.methods",
    "speed.knn",
    "speed.clusters",
    "speed.hindsight",
    "training",
)


def main() -> None:
    """Run each benchmark in a separate process and print its tables."""
    for module in MODULES:
        words = [sys.executable, "-m", f"benchmarks.{module}", *sys.argv[1:]]
        print(f"\n## {' '.join(['python', *words[1:]])}\n", flush=True)
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
