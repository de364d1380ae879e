"""``nodes_up.py NODES`` waits for the nodes of a job to join its Ray cluster, and goes on without those that do not."""

from __future__ import annotations

import sys
import time

import ray

PATIENCE = 180.0


def main(expected: int) -> int:
    """Waits; returns 0 as soon as all nodes are there, or with at least one after three minutes."""
    ray.init(log_to_driver=False, logging_level="ERROR")
    end = time.monotonic() + PATIENCE
    while (alive := alive_nodes()) < expected and time.monotonic() < end:
        time.sleep(0.5)
    have = ray.cluster_resources()
    missing = f"; {expected - alive} did not come, their logs say why" if alive < expected else ""
    print(f"Ray {ray.__version__}: {alive} of {expected} nodes{missing}, {have.get('CPU', 0):.0f} CPUs", flush=True)
    return 0


def alive_nodes() -> int:
    """Nodes that are in the cluster now."""
    return sum(node["Alive"] for node in ray.nodes())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
