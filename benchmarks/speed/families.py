"""Processor time of one update (ms) of SAC, TQC, and CrossQ with critics of several widths.

    python -m benchmarks.speed.families [--repeats 30] [--widths 256 512 1024 2048] [--matrix_dtype bfloat16]

HalfCheetah's shapes, batch 256, policies of two layers of 256, one thread, no environment and no buffer. CrossQ
updates its policy in every third update, as published; the table shows the mean.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.measure import interleaved, single_thread, table
from benchmarks.speed.critics import times
from benchmarks.updates import ACTIONS, OBS, called

TURNS = 3
"""Updates per timed call; one of them includes CrossQ's policy."""


def updates(widths: list[int], matrix_dtype: str) -> dict[str, Any]:
    """Return the updates by name, starting with SAC."""
    from interreplay.learning.actor_critic import crossq, sac, tqc
    from interreplay.learning.networks import layers as networks

    def made(kind: type, nets: Any, **settings: Any) -> Any:
        for layers in nets.modules():
            if isinstance(layers, networks.BatchedMLP):
                layers.matrix_dtype = networks.MATRIX_DTYPES[matrix_dtype]
        return kind(nets, target_entropy=-ACTIONS, **settings)

    found = {
        "SAC": made(sac.SACUpdate, sac.SACNetworks(OBS, ACTIONS)),
        "TQC, 2 × 25": made(tqc.TQCUpdate, tqc.TQCNetworks(OBS, ACTIONS)),
        "TQC, 5 × 25": made(tqc.TQCUpdate, tqc.TQCNetworks(OBS, ACTIONS, critics=5)),
    }
    for width in widths:
        nets = crossq.CrossQNetworks(OBS, ACTIONS, critic_hiddens=(width, width))
        found[f"CrossQ, critics 2 × {width}"] = made(crossq.CrossQUpdate, nets)
    return found


def main() -> None:
    """Time the updates in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--widths", type=int, nargs="*", default=[256, 512, 1024, 2048])
    parser.add_argument("--matrix_dtype", default="float32")
    arguments = parser.parse_args()
    single_thread()
    contenders = {}
    for name, update in updates(arguments.widths, arguments.matrix_dtype).items():
        contenders[name] = times(TURNS, called(update))
    seconds = interleaved(contenders, arguments.repeats, clock=time.process_time)
    base = seconds["SAC"]
    rows = [
        [name, f"{1e3 * np.median(each) / TURNS:.1f}", f"{np.median(each / base):.2f}"]
        for name, each in seconds.items()
    ]
    print(table(["update", "ms", "× SAC"], rows))


if __name__ == "__main__":
    main()
