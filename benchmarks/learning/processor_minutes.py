"""Return per minute of processor time: our presets compared with SBX's DroQ and CrossQ and Stable-Baselines3's SAC.

    pip install stable-baselines3 sbx-rl     # missing libraries are reported, and the other contenders run
    python -m benchmarks.learning.processor_minutes                        # executes missing runs, then redraws
    python -m benchmarks.learning.processor_minutes --draw                 # redraws from benchmarks/data
    python -m benchmarks.learning.processor_minutes --minutes 1 --contenders sample-efficient SAC

Every run has its own process, one processor and one thread, starts with 1,000 random steps, and ends after `--minutes`
of processor time. Evaluations (5 episodes of the deterministic policy) do not count; starting, compiling and stepping
the environment do. Batches, networks and update ratios follow each program's documentation. SBX compiles its updates,
and so do our presets. Other work on the machine lengthens processor time as well, so compare runs that were made at
the same time.

Plan, written before the first run: both tasks, seeds 0 to 2, 10 minutes per run. The statistic is the mean return over
seeds after each twelfth of the time, linearly interpolated. A contender has the highest return per minute if its mean
is the highest on both tasks after every twelfth from a quarter of the time on.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.measure import single_thread, table, write_rows

BENCHMARKS = Path(__file__).parents[1]
DATA = BENCHMARKS / "data" / "processor_minutes"
FIGURE = BENCHMARKS / "figures" / "processor_minutes.png"
ENVS = ("dm_control/cheetah-run-v0", "HalfCheetah-v5")
EPISODES = 5
START = 1_000
"""Random env steps."""
EVALUATIONS = 12
"""Evaluations of a run, evenly spaced in time."""
Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Contender:
    """A program with its settings.

    Attributes:
        library: Module that it requires.
        package: Package to install for it.
        kind: Name of the algorithm in the library, or of our preset.
        settings: Further arguments of the algorithm; of our presets, flags.
    """

    library: str
    package: str
    kind: str
    settings: dict[str, Any]


DROQ = {
    "gradient_steps": 20,
    "policy_delay": 20,
    "qf_learning_rate": 1e-3,
    "policy_kwargs": {"dropout_rate": 0.01, "layer_norm": True},
}
COMPILED = {"torch_compile": "true"}
CONTENDERS = {
    "sample-efficient": Contender("interreplay", "interreplay", "sample-efficient", COMPILED),
    "nmer-one-critic": Contender("interreplay", "interreplay", "nmer-one-critic", COMPILED),
    "SBX-DroQ": Contender("sbx", "sbx-rl", "SAC", DROQ),
    "SBX-CrossQ": Contender("sbx", "sbx-rl", "CrossQ", {}),
    "SAC": Contender("stable_baselines3", "stable-baselines3", "SAC", {}),
}
"""Contenders by name; SBX's settings are those of its documentation."""


def world(env: str) -> Any:
    """Return an environment with flat observations."""
    import gymnasium as gym

    from interreplay.environments import registration

    registration.register(env)
    made = gym.make(env)
    if isinstance(made.observation_space, gym.spaces.Box):
        return made
    return gym.wrappers.FlattenObservation(made)


def evaluate(predict: Predict, arena: Any, seed: int) -> float:
    """Return the mean return of `EPISODES` episodes."""
    returns = []
    for episode in range(EPISODES):
        obs, _ = arena.reset(seed=10_000 + 100 * seed + episode)
        total = 0.0
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = arena.step(predict(obs))
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def make_algorithm(flags: str) -> Any:
    """Return our algorithm with the settings of a line of flags, on one thread and without evaluations."""
    from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
    from interreplay.experiments.training.start import build
    from interreplay.rllib import ray_session

    settings = resolve_settings(make_parser().given(shlex.split(f"{flags} --evaluation_interval 0")))
    ray_session.prepare_host(1, 0)
    return build(SimpleNamespace(**vars(settings)))


def ours(preset: str, env: str, seed: int, **settings: str) -> tuple[Callable[[], int], Predict]:
    """Return a function that trains for some env steps and returns the total so far, and the policy."""
    flags = f"--preset {preset} --env {env} --seed {seed} --steps_per_iteration 50 --learning_starts {START}"
    for name, value in settings.items():
        flags += f" --{name} {value}"
    algorithm = make_algorithm(f"{flags} --total_env_steps 1000000 --buffer_size 1000000")

    def train() -> int:
        algorithm.train()
        return algorithm.env_steps

    return train, algorithm.act


def theirs(library: str, kind: str, env: str, seed: int, **settings: Any) -> tuple[Callable[[], int], Predict]:
    """Return a function that trains for some env steps and returns the total so far, and the policy."""
    module = importlib.import_module(library)
    model = getattr(module, kind)("MlpPolicy", world(env), learning_starts=START, seed=seed, **settings)

    def train() -> int:
        model.learn(50, reset_num_timesteps=False)
        return int(model.num_timesteps)

    return train, lambda obs: model.predict(obs, deterministic=True)[0]


def processor_seconds() -> float:
    """Return the processor time of this process and of the compilers that it started and that have ended."""
    return sum(os.times()[:4])


def run(name: str, env: str, seed: int, minutes: float) -> None:
    """Execute one run in this process and store its evaluations at its end."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[seed % len(os.sched_getaffinity(0))]})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    single_thread()
    contender = CONTENDERS[name]
    arena = world(env)
    spent = 0.0
    begun = processor_seconds()
    if contender.library == "interreplay":
        train, predict = ours(contender.kind, env, seed, **contender.settings)
    else:
        train, predict = theirs(contender.library, contender.kind, env, seed, **contender.settings)
    rows = []
    for due in np.linspace(0.0, 60.0 * minutes, EVALUATIONS + 1)[1:]:
        env_steps = train()
        while spent + processor_seconds() - begun < due:
            env_steps = train()
        spent += processor_seconds() - begun
        rows.append((spent / 60.0, env_steps, evaluate(predict, arena, seed)))
        begun = processor_seconds()
    write_rows(place(name, env, seed), [("minutes", "env_steps", "evaluation_return"), *rows])


def place(name: str, env: str, seed: int) -> Path:
    """Return the path of a run's evaluations."""
    return DATA / f"{env.replace('/', '-')}_{name}_s{seed}.csv"


def read(name: str, env: str) -> list[np.ndarray]:
    """Return the runs of a contender, each ``(n, 3)``: minutes, env steps and return."""
    paths = sorted(DATA.glob(f"{env.replace('/', '-')}_{name}_s*.csv"))
    return [np.loadtxt(path, delimiter=",", skiprows=1) for path in paths]


def summary() -> str:
    """Return the mean returns at quarters of the time, as markdown."""
    rows = []
    for env in ENVS:
        for name in CONTENDERS:
            curves = read(name, env)
            if not curves:
                continue
            end = min(curve[-1, 0] for curve in curves)
            cells = []
            for share in (0.25, 0.5, 0.75, 1.0):
                returns = [np.interp(share * end, curve[:, 0], curve[:, 2]) for curve in curves]
                cells.append(f"{np.mean(returns):,.0f}")
            steps = np.mean([curve[-1, 1] for curve in curves])
            rows.append([env, name, len(curves), f"{end:.1f}", *cells, f"{steps:,.0f}"])
    header = ["environment", "contender", "seeds", "minutes", "1/4", "1/2", "3/4", "end", "env steps at the end"]
    return table(header, rows)


def draw() -> None:
    """Draw a panel per environment (thin lines: individual seeds; thick lines: means)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(ENVS), figsize=(5 * len(ENVS), 3.8), layout="constrained")
    for panel, env in zip(panels, ENVS, strict=True):
        for color, name in enumerate(CONTENDERS):
            curves = read(name, env)
            if not curves:
                continue
            for curve in curves:
                panel.plot(curve[:, 0], curve[:, 2], color=f"C{color}", lw=0.8, alpha=0.6)
            minutes = np.linspace(max(c[0, 0] for c in curves), min(c[-1, 0] for c in curves), 100)
            mean = np.mean([np.interp(minutes, curve[:, 0], curve[:, 2]) for curve in curves], axis=0)
            panel.plot(minutes, mean, color=f"C{color}", lw=2.2, label=name)
        panel.set(title=env, xlabel="minutes of processor time")
    panels[0].set_ylabel("evaluation return")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


def available(names: list[str]) -> list[str]:
    """Return the contenders whose libraries are installed; report the others in one line each."""
    found = []
    for name in names:
        contender = CONTENDERS[name]
        if importlib.util.find_spec(contender.library) is None:
            print(f"{name} is left out: {contender.library} is not installed; pip install {contender.package}")
        else:
            found.append(name)
    return found


def main() -> None:
    """Execute missing runs, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=10.0, help="processor time of a run")
    parser.add_argument("--envs", nargs="+", choices=ENVS, default=list(ENVS))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--draw", action="store_true", help="only print the table and draw the figure")
    parser.add_argument("--one", nargs=3, metavar=("CONTENDER", "ENV", "SEED"), help="execute this run in this process")
    arguments = parser.parse_args()
    if arguments.one:
        name, env, seed = arguments.one
        run(name, env, int(seed), arguments.minutes)
        return
    names = [] if arguments.draw else available(arguments.contenders)
    for seed in arguments.seeds:
        for env in arguments.envs:
            for name in names:
                if place(name, env, seed).exists():
                    continue
                print(f"{name}, {env}, seed {seed}", flush=True)
                words = ["--minutes", str(arguments.minutes), "--one", name, env, str(seed)]
                subprocess.run([sys.executable, "-m", "benchmarks.learning.processor_minutes", *words], check=True)
    if any(DATA.glob("*.csv")):
        print(summary())
        draw()
        print(f"figure: {FIGURE}")


if __name__ == "__main__":
    main()
