"""Every benchmark but the learning curves, one after the other: ``python -m benchmarks``, or ``make bench``."""

from __future__ import annotations

import subprocess
import sys

MODULES = ("buffers", "nmer", "methods", "knn", "clusters", "hindsight", "training")


def main() -> None:
    """Run each in a process of its own; the tables go to standard output."""
    for module in MODULES:
        words = [sys.executable, "-m", f"benchmarks.{module}", *sys.argv[1:]]
        print(f"\n## {' '.join(['python', *words[1:]])}\n", flush=True)
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
