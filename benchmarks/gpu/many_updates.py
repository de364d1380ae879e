"""Updates of R independent runs as one: microseconds per run, on a GPU or a processor.

    python -m benchmarks.gpu.many_updates [--device cpu] [--runs 1 8 32] [--hiddens 256 256] [--batch 256] [--compiled]

"alone" is the update of one run. On a GPU, all are CUDA graphs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.updates import ACTIONS, OBS, described, make_batch
from benchmarks.measure import interleaved, single_thread, table
from interreplay.learning.actor_critic.many import ManyUpdates
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.captured import CapturedUpdate
from interreplay.learning.update import Batch


def learner(runs: int | None, arguments: argparse.Namespace, device: torch.device) -> Callable[[], object]:
    """Return a function that makes `arguments.updates` updates of `runs` runs; None: of one run alone."""
    updates = []
    for _ in range(runs or 1):
        networks = SACNetworks(OBS, ACTIONS, arguments.hiddens).to(device)
        updates.append(SACUpdate(networks, torch_compile=arguments.compiled))
    batch = make_batch(arguments.batch, device)
    rng: Any = [torch.Generator(device) for _ in updates]
    update: Any = updates[0]
    if runs is None:
        rng = rng[0]
    else:
        update = ManyUpdates(updates)
        batch = Batch.stack([batch] * runs)
    if device.type != "cpu":
        update = CapturedUpdate(update, device)

    def learn() -> None:
        torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
        for _ in range(arguments.updates):
            update.update(batch, rng)
        if device.type != "cpu":
            torch.cuda.synchronize()

    return learn


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--hiddens", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--updates", type=int, default=50, help="updates per timed call")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--compiled", action="store_true", help="use torch.compile")
    parser.add_argument("--tf32", action="store_true", help="compute products in TF32")
    arguments = parser.parse_args()
    single_thread()
    device = torch.device(arguments.device)
    contenders = {"alone": learner(None, arguments, device)}
    counts = {"alone": 1}
    for runs in arguments.runs:
        counts[f"{runs} runs"] = runs
        contenders[f"{runs} runs"] = learner(runs, arguments, device)
    seconds = interleaved(contenders, arguments.repeats)
    base = seconds["alone"]
    lines = []
    for name, values in seconds.items():
        of_all = values / arguments.updates * 1e6
        of_one = of_all / counts[name]
        ratio = np.median(base / (values / counts[name]))
        lines.append([name, f"{np.median(of_all):.0f}", f"{np.median(of_one):.1f}", f"{ratio:.2f}"])
    print(described(device))
    kind = ("compiled, " if arguments.compiled else "") + ("TF32, " if arguments.tf32 else "")
    header = f"SAC, {kind}{'x'.join(map(str, arguments.hiddens))}, batch {arguments.batch}"
    print(table([header, "µs per update of all", "µs per run", "× updates of one run alone per second"], lines))


if __name__ == "__main__":
    main()
