"""Processor time per env step (µs): DQN and its variants compared with Stable-Baselines3's and RLlib's DQN.

    python -m benchmarks.values [--task cartpole|cartpole-8|minatar|pong] [--repeats 15]

All contenders run in this process on one thread, in turn, with the networks, batches and updates per step of the task.
SB3 has no convolutions for MinAtar and is left out there. RLlib's DQN is only measured on one CartPole. We and SB3 play
Pong in our environment, so that it takes both the same time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import installed, interleaved, per_step_table, quiet_single_thread
from interreplay.environments import registration

STEPS = 400
"""Env steps per timed call."""
TRAINERS = ("DQN", "DuelingDQN", "NoisyDQN", "C51", "QRDQN", "Rainbow")


@dataclass(frozen=True)
class Task:
    """What all contenders have in common.

    Attributes:
        env: Id of the environment.
        hiddens: Widths of the layers.
        batch: Rows per update.
        every: Env steps per update.
        environments: Number of environments that are stepped together.
        capacity: Capacity of the replay buffer.
    """

    env: str
    hiddens: tuple[int, ...]
    batch: int
    every: int = 1
    environments: int = 1
    capacity: int = 100_000


TASKS = {
    "cartpole": Task("CartPole-v1", (64, 64), 32),
    "cartpole-8": Task("CartPole-v1", (256, 256), 64, 4, 8),
    "minatar": Task("MinAtar/Breakout-v0", (128,), 32, 4, 8),
    "pong": Task("PongNoFrameskip-v4", (512,), 32, 4, 1, 10_000),
}


def ours(task: Task, trainer: str = "DQN", **settings: Any) -> Callable[[], Any]:
    """Return the `train` method of our algorithm."""
    from interreplay import rllib

    config = getattr(rllib, f"{trainer}Config")().environment(task.env).debugging(seed=0)
    recipe = dict(config.replay_buffer_config)
    algorithm = (
        config.replay(recipe.pop("type"), **recipe | {"capacity": task.capacity})
        .env_runners(num_envs_per_env_runner=task.environments)
        .training(
            num_steps_sampled_before_learning_starts=200,
            steps_per_iteration=STEPS,
            updates_per_step=1 / task.every,
            train_batch_size=task.batch,
            hiddens=task.hiddens,
            **settings,
        )
        .build_algo()
    )
    return algorithm.train


def stable_baselines(task: Task, **settings: Any) -> Callable[[], Any]:
    """Return a function that trains SB3's DQN with the same networks, batches and frequency (no PER, no variants)."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_vec_env

    model = DQN(
        "CnnPolicy" if task.env == TASKS["pong"].env else "MlpPolicy",
        make_vec_env(task.env, task.environments, seed=0),
        learning_starts=200,
        train_freq=max(1, task.every // task.environments),
        gradient_steps=-1 if task.every == 1 else max(1, task.environments // task.every),
        batch_size=task.batch,
        policy_kwargs={} if task.env == TASKS["pong"].env else {"net_arch": [*task.hiddens]},
        buffer_size=task.capacity,
        target_update_interval=500,
        seed=0,
        device="cpu",
        **settings,
    )
    return lambda: model.learn(STEPS, reset_num_timesteps=False)


def stock_rllib(task: Task) -> Callable[[], Any]:
    """Return the `train` method of RLlib's DQN with a uniform buffer and iterations of `STEPS` steps."""
    from ray.rllib.algorithms.dqn import DQNConfig

    return (
        DQNConfig()
        .environment(task.env)
        .env_runners(num_env_runners=0, rollout_fragment_length=task.every)
        .training(
            train_batch_size=task.batch,
            training_intensity=task.batch / task.every,
            num_steps_sampled_before_learning_starts=200,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": task.capacity},
            target_network_update_freq=500,
            double_q=False,
            dueling=False,
        )
        .rl_module(
            model_config={"fcnet_hiddens": [*task.hiddens], "fcnet_activation": "relu", "head_fcnet_hiddens": []}
        )
        .reporting(min_sample_timesteps_per_iteration=STEPS, min_time_s_per_iteration=0)
        .debugging(seed=0)
        .build_algo()
        .train
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cartpole", choices=TASKS)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--trainers", default=",".join(TRAINERS))
    arguments = parser.parse_args()
    quiet_single_thread()
    task = TASKS[arguments.task]
    registration.register(task.env)
    found = {f"ours, {trainer}": ours(task, trainer) for trainer in arguments.trainers.split(",")}
    if arguments.task == "pong":
        found["ours, DQN, bfloat16"] = ours(task, conv_dtype="bfloat16")
    if "MinAtar" not in task.env and installed("stable_baselines3"):
        found["Stable-Baselines3, DQN"] = stable_baselines(task)
    if arguments.task == "cartpole":
        found["RLlib, DQN"] = stock_rllib(task)
    micros = {
        name: seconds / STEPS * 1e6
        for name, seconds in interleaved(found, arguments.repeats, clock=time.process_time).items()
    }
    print(per_step_table(arguments.task, micros))


if __name__ == "__main__":
    main()
