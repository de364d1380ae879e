"""Env steps per second of SAC on a GPU: one run, many runs at once, and Stable-Baselines3.

    python -m benchmarks.gpu.runs [--env HalfCheetah-v5] [--runs 32] [--updates 1] [--buffer Uniform] [--compiled]

Each run has its environment, its replay buffer, its networks and its generator, and makes `--updates` updates of
batches of 256 per env step. Environments and buffers of many runs are distributed over processes, which write batches
to shared memory; the GPU fetches them and makes the updates of half of the runs and their next actions as one CUDA
graph while the processes work for the other half. One run alone does the same in one process. Ray is not needed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.updates import described
from benchmarks.measure import installed, interleaved, medians_table, single_thread

BATCH = 256
COLUMNS = ("obs", "actions", "rewards", "next_obs", "terminated", "truncated", "discounts")


class Run:
    """The environment and the replay buffer of one run.

    Args:
        arguments: Arguments of the program; the constructor makes `warm_up` env steps with random actions.
        seed: Seed of the environment and the buffer.
    """

    def __init__(self, arguments: argparse.Namespace, seed: int):
        import gymnasium as gym

        from interreplay.buffer.catalogue import make_buffer

        self.env = gym.make(arguments.env)
        self.env.action_space.seed(seed)
        self.obs, _ = self.env.reset(seed=seed)
        self.buffer = make_buffer(arguments.buffer, capacity=1_000_000, seed=seed)
        for _ in range(arguments.warm_up):
            self.step(self.env.action_space.sample())

    def step(self, action: np.ndarray) -> None:
        """Make one env step and store it; actions must be within ±1, as HalfCheetah's are."""
        from interreplay import Transitions

        following, reward, terminated, truncated, _ = self.env.step(action)
        row = Transitions(
            obs=self.obs[None].astype(np.float32),
            actions=action[None].astype(np.float32),
            rewards=np.array([reward], np.float32),
            next_obs=following[None].astype(np.float32),
            terminated=np.array([terminated]),
            truncated=np.array([truncated]),
        )
        self.buffer.add(row)
        self.obs = self.env.reset()[0] if terminated or truncated else following

    def write(self, columns: dict[str, Tensor], place: int) -> None:
        """Draw the batches of an env step and write them and the observation into ``(R, updates, n, ...)`` columns."""
        updates = columns["rewards"].shape[1]
        for number, sample in enumerate(self.buffer.batches(BATCH, updates)):
            for name in COLUMNS:
                columns[name][place, number] = getattr(sample.transitions, name)
        columns["observation"][place, 0] = torch.from_numpy(self.obs)


def widths(env: str) -> tuple[Any, Any]:
    """Return the shapes of observations and actions."""
    import gymnasium as gym

    world = gym.make(env)
    return world.observation_space.shape, world.action_space.shape


def shared_columns(runs: int, updates: int, obs: int, actions: int) -> dict[str, Tensor]:
    """Return columns in memory that processes share."""
    shape = (runs, updates, BATCH)
    columns = {
        "obs": torch.zeros(*shape, obs),
        "actions": torch.zeros(*shape, actions),
        "rewards": torch.zeros(shape),
        "next_obs": torch.zeros(*shape, obs),
        "terminated": torch.zeros(shape, dtype=torch.bool),
        "truncated": torch.zeros(shape, dtype=torch.bool),
        "discounts": torch.zeros(shape),
        "observation": torch.zeros(runs, 1, obs),
        "action": torch.zeros(runs, 1, actions),
        "round": torch.zeros(runs + 1, 16, dtype=torch.int64),
    }
    return {name: column.share_memory_() for name, column in columns.items()}


def lock_pages(column: Tensor) -> None:
    """Lock the pages of a column in shared memory, so that a GPU can fetch it without the processor."""
    torch.cuda.cudart().cudaHostRegister(column.data_ptr(), column.nbytes, 0)


def work(arguments: argparse.Namespace, places: Sequence[Sequence[int]], columns: Sequence[dict[str, Tensor]]) -> None:
    """Make env steps and draw batches for some runs of each group, whenever the GPU has finished with the group.

    Args:
        arguments: Arguments of the program.
        places: Numbers of the runs within each group.
        columns: Shared memory of each group.
    """
    single_thread()
    warnings.simplefilter("ignore")
    runs = []
    for group, numbers in enumerate(places):
        runs.append([Run(arguments, 1_000 * group + place) for place in numbers])
    done = 0
    while True:
        for numbers, own, shared in zip(places, runs, columns, strict=True):
            rounds = shared["round"].numpy()
            while rounds[-1, 0] < done:
                os.sched_yield()
            if rounds[-1, 0] == np.iinfo(np.int64).max:
                return
            for place, run in zip(numbers, own, strict=True):
                if done:
                    run.step(shared["action"][place, 0].numpy())
                run.write(shared, place)
                rounds[place, 0] = done + 1
        done += 1


class Group:
    """R runs that learn on a GPU as one.

    Args:
        count: Number of runs R.
        seed: Seed of the first run.
        arguments: Arguments of the program.
    """

    def __init__(self, count: int, seed: int, arguments: argparse.Namespace):
        from interreplay import Transitions
        from interreplay.learning.actor_critic.many import ManyUpdates
        from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
        from interreplay.learning.captured import CapturedFunction
        from interreplay.learning.update import Batch

        self.count = count
        self.device = torch.device(arguments.device)
        (obs,), (actions,) = widths(arguments.env)
        self.columns = shared_columns(count, arguments.updates, obs, actions)
        self.inputs = [self.columns[name] for name in (*COLUMNS, "observation")]
        self.round = 0
        updates = []
        for _ in range(count):
            networks = SACNetworks(obs, actions, (256, 256)).to(self.device)
            updates.append(SACUpdate(networks, torch_compile=arguments.compiled))
        many = ManyUpdates(updates)
        generators = [torch.Generator(self.device).manual_seed(seed + number) for number in range(count)]
        weights = torch.ones(count, BATCH, device=self.device)

        def learn(columns: list[Tensor]) -> Tensor:
            """Make the updates of an env step, and return the next actions."""
            named: dict[str, Any] = dict(zip((*COLUMNS, "observation"), columns, strict=True))
            for number in range(arguments.updates):
                rows = Transitions(**{name: named[name][:, number] for name in COLUMNS})
                many.learn(Batch(rows, weights), generators)
            return many.act(named["observation"], generators)

        self.learn: Callable[[list[Tensor]], Tensor] = learn
        self.finished: Any = None
        if self.device.type == "cuda":
            self.learn = CapturedFunction(learn, self.inputs, generators)
            self.finished = torch.cuda.Event()
            for column in (*self.inputs, self.columns["action"]):
                lock_pages(column)

    def begin(self) -> None:
        """Start the updates of a round on the GPU as soon as its batches are written."""
        rounds = self.columns["round"].numpy()
        while rounds[:-1, 0].min() <= self.round:
            os.sched_yield()
        self.columns["action"].copy_(self.learn(self.inputs), non_blocking=True)
        if self.finished is not None:
            self.finished.record()

    def end(self) -> None:
        """Wait for the actions of a round and release them to the environments."""
        if self.finished is not None:
            self.finished.synchronize()
        self.round += 1
        self.columns["round"][-1, 0] = self.round


def alone(arguments: argparse.Namespace) -> Callable[[int], None]:
    """Return a function that makes a number of env steps of one run, all in this process."""
    group = Group(1, 0, arguments)
    run = Run(arguments, 0)

    def steps(count: int) -> None:
        for _ in range(count):
            run.write(group.columns, 0)
            group.columns["round"][0, 0] = group.round + 1
            group.begin()
            group.end()
            run.step(group.columns["action"][0, 0].numpy())

    return steps


class Together:
    """Runs in two groups: while the GPU learns for one, processes make the env steps of the other.

    Args:
        arguments: Arguments of the program.
    """

    def __init__(self, arguments: argparse.Namespace):
        half = arguments.runs // 2
        self.groups = [Group(half, 0, arguments), Group(arguments.runs - half, half, arguments)]
        columns = [group.columns for group in self.groups]
        self.processes = []
        context = multiprocessing.get_context("spawn")
        count = min(arguments.processes, half)
        for number in range(count):
            places = [range(number, group.count, count) for group in self.groups]
            self.processes.append(context.Process(target=work, args=(arguments, places, columns), daemon=True))
            self.processes[-1].start()
        self.groups[0].begin()

    def steps(self, count: int) -> None:
        """Make `count` env steps in each run, with their updates."""
        one, other = self.groups
        for _ in range(count):
            other.begin()
            one.end()
            one.begin()
            other.end()

    def close(self) -> None:
        """End the processes."""
        for group in self.groups:
            group.columns["round"][-1, 0] = torch.iinfo(torch.int64).max
        for process in self.processes:
            process.join(timeout=10)


def stable_baselines(arguments: argparse.Namespace) -> Callable[[int], object]:
    """Return a function that trains SAC of Stable-Baselines3 for a number of env steps."""
    import stable_baselines3

    model = stable_baselines3.SAC(
        "MlpPolicy",
        arguments.env,
        learning_starts=arguments.warm_up,
        train_freq=1,
        gradient_steps=arguments.updates,
        batch_size=BATCH,
        policy_kwargs={"net_arch": [256, 256]},
        device=arguments.device,
    )
    model.learn(arguments.warm_up + 10)
    return lambda count: model.learn(count, reset_num_timesteps=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--buffer", default="Uniform")
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--updates", type=int, default=1, help="updates per env step")
    parser.add_argument("--warm_up", type=int, default=1_000, help="env steps with random actions")
    parser.add_argument("--steps", type=int, default=200, help="env steps per timed call and run")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--compiled", action="store_true", help="use torch.compile")
    parser.add_argument("--tf32", action="store_true", help="compute products in TF32")
    parser.add_argument("--without_theirs", action="store_true", help="leave Stable-Baselines3 out")
    arguments = parser.parse_args()
    single_thread()
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    one = alone(arguments)
    together = Together(arguments)
    steps = arguments.steps
    of_many = f"{arguments.runs} runs at once"
    contenders: dict[str, Callable[[], object]] = {
        "one run": lambda: one(steps),
        of_many: lambda: together.steps(steps),
    }
    counts = {"one run": steps, of_many: steps * arguments.runs}
    if not arguments.without_theirs and installed("stable_baselines3"):
        theirs = stable_baselines(arguments)
        counts["Stable-Baselines3"] = max(1, steps // 4)
        contenders["Stable-Baselines3"] = lambda: theirs(counts["Stable-Baselines3"])
    begun = time.perf_counter()
    seconds = interleaved(contenders, arguments.repeats)
    rates = {name: counts[name] / values for name, values in seconds.items()}
    ratios = {name: values / rates["one run"] for name, values in rates.items()}
    took = time.perf_counter() - begun
    print(f"{described(torch.device(arguments.device))}, {arguments.processes} processes, {took:.0f} s")
    kind = ("compiled, " if arguments.compiled else "") + ("TF32, " if arguments.tf32 else "")
    title = f"SAC, {kind}{arguments.env}, {arguments.buffer}, updates per step: {arguments.updates}"
    head = [title, "env steps/s in sum, median", "quartiles", "× one run, median of pairs"]
    print(medians_table(head, rates, ratios, digits=0))
    together.close()


if __name__ == "__main__":
    main()
