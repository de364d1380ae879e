"""``nodes_up.py NODES`` waits for the nodes of a job to join its Ray cluster, at most three minutes."""

from __future__ import annotations

import sys
import time

import ray

PATIENCE = 180.0


def main(expected: int) -> int:
    """Return 0 when all nodes have joined, or after `PATIENCE` seconds."""
    ray.init(log_to_driver=False, logging_level="ERROR")
    end = time.monotonic() + PATIENCE
    alive = 0
    while alive < expected and time.monotonic() < end:
        time.sleep(0.5)
        alive = sum(node["Alive"] for node in ray.nodes())
    have = ray.cluster_resources()
    missing = f"; {expected - alive} did not join, see their logs" if alive < expected else ""
    print(f"Ray {ray.__version__}: {alive} of {expected} nodes{missing}, {have.get('CPU', 0):.0f} CPUs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
