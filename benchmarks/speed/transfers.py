"""Bytes per transition from a runner to the buffer, compared with RLlib's episodes; time and size of checkpoints.

python -m benchmarks.speed.transfers [--env HalfCheetah-v5] [--rows 100000] [--buffers Uniform NMER]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import ray
import torch

from benchmarks.measure import single_thread
from interreplay import Transitions
from interreplay.environments.spaces import columns_from_spaces
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from interreplay.experiments.training.start import build
from interreplay.rllib import ray_session
from interreplay.rllib.env_runner.remote import pack

LENGTHS = (1, 50, 1000)


def algorithm(env: str, buffer: str, rows: int) -> Any:
    """Return SAC with an empty buffer of capacity `rows`."""
    line = f"--env {env} --buffer {buffer} --buffer_size {rows} --evaluation_interval 0"
    settings = SimpleNamespace(**vars(resolve_settings(make_parser().given(line.split()))))
    return build(settings)


def sent(value: Any) -> int:
    """Return the bytes of a value as Ray sends it to another process."""
    context = ray._private.worker.global_worker.get_serialization_context()
    return context.serialize(value).total_bytes


def raw(rows: Transitions) -> int:
    """Return the bytes of the columns themselves."""
    columns = [rows.obs, rows.actions, rows.rewards, rows.next_obs, rows.terminated, rows.truncated, rows.episode]
    return sum(column.nbytes for column in columns if column is not None)


def transfers(env: str) -> None:
    """Print the bytes per transition, a line per length of fragments."""
    algo = algorithm(env, "Uniform", 10_000)
    print(f"{env}: bytes per transition as sent by a runner, by transitions per fragment")
    try:
        for length in LENGTHS:
            rows = algo.env_runner.collect(length, True)
            episodes = algo.env_runner.sample(num_timesteps=length, random_actions=True)
            ours, theirs, columns = (x / length for x in (sent(pack(rows.columns())), sent(episodes), raw(rows)))
            print(
                f"{length:>6}: columns {columns:7.0f}, sent {ours:7.0f} ({ours / columns:.2f}x), episodes {theirs:7.0f}"
            )
        weights = algo.learner.get_state(components="rl_module", inference_only=True)
        print(f"weights, sent with every request to every runner: {sent(weights):,} bytes")
    finally:
        algo.stop()


def fill(buffer: Any, rows: int, like: Transitions) -> None:
    """Add random rows of the shapes and types of `like`, in episodes of 1,000."""
    for begin in range(0, rows, 1000):
        obs = torch.randn(1001, *like.obs.shape[1:]).to(like.obs.dtype)
        ends = torch.zeros(1000, dtype=torch.bool)
        cut = ends.clone()
        cut[-1] = True
        actions = torch.rand(1000, *like.actions.shape[1:]) * 2 - 1
        episode = torch.full((1000,), begin // 1000)
        buffer.add(Transitions(obs[:-1], actions, torch.randn(1000), obs[1:], ends, cut, episode=episode))


def checkpoints(env: str, buffer: str, rows: int, repeats: int) -> None:
    """Print the time and size of a checkpoint, compared with the memory of buffer and weights."""
    algo = algorithm(env, buffer, rows)
    try:
        fill(algo.replay_buffer, rows, algo.env_runner.collect(2, True))
        weights = sum(p.nbytes for p in algo.learner.single_module.parameters())
        stored = algo.replay_buffer.nbytes(columns_from_spaces(*algo.single_spaces))
        memory = stored + 3 * weights  # including two moments of Adam per weight
        times = []
        with tempfile.TemporaryDirectory() as folder:
            for repeat in range(repeats):
                begun = time.perf_counter()
                path = Path(algo.save_to_path(str(Path(folder, str(repeat)))))
                times.append(time.perf_counter() - begun)
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        sizes = f"{size / 1e6:.1f} MB, {size / memory:.2f}x buffer and weights ({size / stored:.2f}x the buffer alone)"
        print(f"checkpoint with {rows:,} rows of {buffer}: {median(times):.2f} s, {sizes}", flush=True)
    finally:
        algo.stop()


def main() -> None:
    """Measure and print transfers and checkpoints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--buffers", nargs="+", default=["Uniform", "PER", "NMER"])
    args = parser.parse_args()
    single_thread()
    ray_session.prepare_host(1, 0)
    transfers(args.env)
    for buffer in args.buffers:
        checkpoints(args.env, buffer, args.rows, args.repeats)


if __name__ == "__main__":
    main()
