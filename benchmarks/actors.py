"""Processor time per env step (µs): IMPALA and A2C compared with RLlib's IMPALA and Stable-Baselines3's A2C.

    python -m benchmarks.actors [--task cartpole|minatar|pong] [--repeats 15]

All contenders run in this process on one thread, in turn. RLlib's IMPALA is tuned to use no separate processes, which
it polls by default. MinAtar and Pong are measured without replay, with half and with three quarters of each batch
replayed, and with an elite and an attentive store instead of a uniform one. The other programs have no replay.
All contenders play Pong in our environment, Stable-Baselines3 with the network of Mnih et al. and we with IMPALA's
shallow network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import installed, interleaved, per_step_table, quiet_single_thread
from interreplay.environments import registration

CALL = 3_000
"""Minimum number of env steps per timed call, which ends with a whole unroll."""


@dataclass(frozen=True)
class Task:
    """What all contenders have in common.

    Attributes:
        env: Id of the environment.
        hiddens: Widths of the layers.
        environments: Number of environments, which is also the number of fresh unrolls per update.
        steps: Steps of an unroll.
        encoder: Convolutions by name.
        replay: Whether to measure replayed unrolls; otherwise A2C is measured, too.
        rllib: Whether RLlib's IMPALA takes part.
        stable_baselines: Numbers of environments with which Stable-Baselines3's A2C takes part.
    """

    env: str
    hiddens: tuple[int, ...]
    environments: int = 32
    steps: int = 20
    encoder: str = "auto"
    replay: bool = True
    rllib: bool = False
    stable_baselines: tuple[int, ...] = ()


TASKS = {
    "cartpole": Task("CartPole-v1", (64, 64), replay=False, rllib=True, stable_baselines=(32, 8)),
    "minatar": Task("MinAtar/Breakout-v0", (128,)),
    "pong": Task("PongNoFrameskip-v4", (256,), 16, encoder="shallow", stable_baselines=(16,)),
}


class Ours:
    """Our algorithm. A call makes slightly more than `CALL` env steps; `steps` is their total number.

    Args:
        task: The task to learn.
        trainer: Name of the algorithm.
        replayed: Share of replayed unrolls in a batch.
        kind: Kind of the store of replayed unrolls.
        runners: Number of actor processes; 0 acts in this process.
        more: Further settings; ``steps`` replaces the task's steps of an unroll.
    """

    def __init__(
        self,
        task: Task,
        trainer: str = "IMPALA",
        replayed: float = 0.0,
        kind: str = "uniform",
        runners: int = 0,
        **more: Any,
    ):
        from interreplay import rllib

        config = getattr(rllib, f"{trainer}Config")().environment(task.env).debugging(seed=0)
        each = task.environments // max(runners, 1)
        steps = more.pop("steps", task.steps)
        config.env_runners(num_env_runners=runners, num_envs_per_env_runner=each, rollout_fragment_length=steps)
        batch = round(task.environments / (1.0 - replayed))
        given = {"hiddens": task.hiddens, "encoder": task.encoder, "steps_per_iteration": CALL} | more
        config.training(train_batch_size=batch, **given)
        if replayed:
            store = {"type": kind, "capacity": 1_000, "share": replayed}
            config.replay([{"type": "queue", "share": 1.0 - replayed}, store])
        self._algorithm = config.build_algo()
        self.stop = self._algorithm.stop

    @property
    def steps(self) -> int:
        """Env steps so far."""
        return self._algorithm.env_steps

    def __call__(self) -> None:
        self._algorithm.train()


class Rllib:
    """RLlib's IMPALA with everything in one process, and no waiting for metrics."""

    def __init__(self, task: Task):
        from ray.rllib.algorithms.impala import IMPALAConfig
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        config = IMPALAConfig().environment(task.env).debugging(seed=0, log_level="ERROR")
        config.env_runners(
            num_env_runners=0, num_envs_per_env_runner=task.environments, rollout_fragment_length=task.steps
        )
        config.learners(num_learners=0)
        config.training(train_batch_size_per_learner=task.environments * task.steps)
        config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[*task.hiddens], vf_share_layers=True))
        config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=CALL)
        config.timeout_s_sampler_manager = 0.2
        self._algorithm = config.build_algo()
        self.steps = 0

    def __call__(self) -> None:
        self.steps = self._algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"]


class StableBaselines:
    """SB3's A2C with its defaults and the same environments."""

    def __init__(self, task: Task, environments: int):
        from stable_baselines3 import A2C
        from stable_baselines3.common.env_util import make_vec_env

        made = make_vec_env(task.env, environments, seed=0)
        if task.encoder == "auto":
            network: dict[str, Any] = {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [*task.hiddens]}}
        else:
            network = {"policy": "CnnPolicy"}
        self._model = A2C(env=made, seed=0, device="cpu", **network)

    @property
    def steps(self) -> int:
        """Env steps so far."""
        return self._model.num_timesteps

    def __call__(self) -> None:
        self._model.learn(CALL, reset_num_timesteps=False)


def contenders(task: Task, names: Sequence[str]) -> dict[str, Any]:
    """Return the contenders whose name contains one of `names`, plain IMPALA first."""
    a2c: dict[str, Any] = {"steps": 5, "activation": "tanh", "shared_layers": False}
    made: dict[str, Callable[[], Any]] = {"ours, IMPALA": lambda: Ours(task)}
    if task.replay:
        made["half replayed"] = lambda: Ours(task, replayed=0.5)
        made["half replayed, elite"] = lambda: Ours(task, replayed=0.5, kind="elite")
        made["half replayed, attentive"] = lambda: Ours(task, replayed=0.5, kind="attentive")
        made["three quarters replayed"] = lambda: Ours(task, replayed=0.75)
    else:
        made["ours, A2C, unrolls of 5"] = lambda: Ours(task, "A2C", **a2c)
    if task.rllib:
        made["RLlib, IMPALA, one process"] = lambda: Rllib(task)
    if installed("stable_baselines3"):
        for count in task.stable_baselines:
            made[f"SB3, A2C, unrolls of 5, {count} environments"] = partial(StableBaselines, task, count)
    found = {}
    for name, make in made.items():
        if any(part in name for part in names):
            found[name] = make()
    return found


def measured(runs: dict[str, Any], repeats: int) -> dict[str, np.ndarray]:
    """Return the processor time per env step in microseconds ``(repeats,)`` by name."""
    steps: dict[str, list[int]] = {name: [] for name in runs}

    def counted(name: str) -> Callable[[], None]:
        def call() -> None:
            before = runs[name].steps
            runs[name]()
            steps[name].append(runs[name].steps - before)

        return call

    timed = interleaved({name: counted(name) for name in runs}, repeats, clock=time.process_time)
    return {name: seconds / np.array(steps[name][-repeats:]) * 1e6 for name, seconds in timed.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cartpole", choices=TASKS)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", default="", help="parts of contender names, separated by commas")
    arguments = parser.parse_args()
    quiet_single_thread()
    task = TASKS[arguments.task]
    registration.register(task.env)
    micros = measured(contenders(task, arguments.only.split(",")), arguments.repeats)
    print(per_step_table(arguments.task, micros))


if __name__ == "__main__":
    main()
