"""SAC's update on a GPU, as usual and as a CUDA graph, compared with Stable-Baselines3 and LeanRL.

    python -m benchmarks.gpu.updates [--hiddens 256 256] [--batch 256] [--leanrl PROGRAM] [--profile] [--repeats 11]

All contenders learn from one batch that is on the GPU; Stable-Baselines3 also draws its batches, from 10,000 rows.
LeanRL is not a package: `--leanrl` names its file `sac_continuous_action_torchcompile.py`.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import installed, interleaved, micros_table, single_thread, table
from interreplay import Transitions
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.captured import CapturedUpdate
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.update import Batch

OBS = 17
ACTIONS = 6
ENV = "HalfCheetah-v5"
CUDA = torch.device("cuda")
Learn = Callable[[int], None]


def measure_micros(
    contenders: Mapping[str, Learn], count: int, repeats: int, warm_up: int = 2
) -> dict[str, np.ndarray]:
    """Return the microseconds per unit of work ``(repeats,)`` by name; a timed call makes `count` units."""
    calls = {name: functools.partial(learn, count) for name, learn in contenders.items()}
    seconds = interleaved(calls, repeats, warm_up=warm_up)
    return {name: values / count * 1e6 for name, values in seconds.items()}


def described(device: torch.device) -> str:
    """Return the names of a device and of the version of PyTorch."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return f"{name}, PyTorch {torch.__version__}"


def synchronize(device: torch.device) -> None:
    """Wait for a GPU; do nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def make_batch(rows: int, device: torch.device = CUDA) -> Batch:
    """Return a batch with the widths of HalfCheetah."""
    torch.manual_seed(0)
    columns = Transitions(
        obs=torch.randn(rows, OBS),
        actions=torch.rand(rows, ACTIONS) * 2.0 - 1.0,
        rewards=torch.randn(rows),
        next_obs=torch.randn(rows, OBS),
        terminated=torch.zeros(rows, dtype=torch.bool),
        truncated=torch.zeros(rows, dtype=torch.bool),
        discounts=torch.full((rows,), 0.99),
    )
    return Batch(columns.to(device), torch.ones(rows, device=device))


def ours(hiddens: list[int], rows: int, captured: bool = True, precision: str = "float32", **settings: bool) -> Learn:
    """Return our update.

    Args:
        hiddens: Widths of the hidden layers.
        rows: Rows of a batch.
        captured: Whether the update runs as a CUDA graph.
        precision: "float32", "tf32" or "bfloat16", the type of the products.
        **settings: Settings of SAC.
    """
    networks = SACNetworks(OBS, ACTIONS, hiddens).to(CUDA)
    if precision == "bfloat16":
        for layers in networks.modules():
            if isinstance(layers, BatchedMLP):
                layers.matrix_dtype = torch.bfloat16
    update = SACUpdate(networks, **settings)
    learner = CapturedUpdate(update, CUDA) if captured else update
    batch = make_batch(rows)
    rng = torch.Generator(CUDA)

    def learn(count: int) -> None:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        for _ in range(count):
            learner.update(batch, rng)
        torch.cuda.synchronize()

    return learn


def stable_baselines(hiddens: list[int], rows: int) -> Learn:
    """Return the update of Stable-Baselines3, which draws its batches."""
    import stable_baselines3
    from stable_baselines3.common.logger import Logger

    model = stable_baselines3.SAC(
        "MlpPolicy", ENV, batch_size=rows, policy_kwargs={"net_arch": hiddens}, device="cuda", buffer_size=10_000
    )
    model.set_logger(Logger(None, []))
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        obs, following = rng.normal(size=(2, 1, OBS)).astype(np.float32)
        action = rng.uniform(-1, 1, (1, ACTIONS)).astype(np.float32)
        model.replay_buffer.add(obs, following, action, rng.normal(size=1), np.zeros(1, bool), [{}])

    def learn(count: int) -> None:
        model.train(gradient_steps=count, batch_size=rows)
        torch.cuda.synchronize()

    return learn


def profile(learn: Learn, updates: int = 20) -> str:
    """Return a table of the kernels of an update."""
    from torch.profiler import ProfilerActivity, profile

    learn(5)
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        learn(updates)
    kernels = [(event.key, event.count / updates, event.device_time_total / updates) for event in found.key_averages()]
    kernels.sort(key=lambda kernel: -kernel[2])
    lines = [[name[:90], f"{count:.1f}", f"{micros:.1f}"] for name, count, micros in kernels if micros > 0]
    total = [["all", f"{sum(k[1] for k in kernels):.0f}", f"{sum(k[2] for k in kernels):.1f}"]]
    return table(["kernel", "per update", "µs per update"], total + lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hiddens", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--updates", type=int, default=300, help="updates per timed call")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--leanrl", type=Path, help="LeanRL's sac_continuous_action_torchcompile.py; two layers of 256")
    parser.add_argument("--compiled", action="store_true", help="also measure torch.compile")
    parser.add_argument("--profile", action="store_true", help="also list the kernels of an update")
    arguments = parser.parse_args()
    single_thread()
    shape = (arguments.hiddens, arguments.batch)
    contenders = {
        "ours, CUDA graph": ours(*shape),
        "ours, CUDA graph, TF32": ours(*shape, precision="tf32"),
        "ours, CUDA graph, bfloat16": ours(*shape, precision="bfloat16"),
        "ours, as usual": ours(*shape, captured=False),
    }
    if installed("stable_baselines3"):
        contenders["Stable-Baselines3"] = stable_baselines(*shape)
    if arguments.compiled:
        contenders["ours, compiled, CUDA graph"] = ours(*shape, torch_compile=True)
        contenders["ours, compiled"] = ours(*shape, captured=False, torch_compile=True)
    if arguments.leanrl:
        from benchmarks.gpu.leanrl import sac_update

        rows = make_batch(arguments.batch).transitions
        contenders["LeanRL, compiled, CUDA graph"] = sac_update(arguments.leanrl, ENV, rows)
    if arguments.profile:
        print(profile(contenders["ours, CUDA graph"]), end="\n\n")
    micros = measure_micros(contenders, arguments.updates, arguments.repeats)
    print(described(CUDA))
    header = f"SAC, {'x'.join(map(str, arguments.hiddens))}, batch {arguments.batch}"
    print(micros_table(header, "update", micros))


if __name__ == "__main__":
    main()
