"""Check the installation in under a minute and explain how to fix it: ``python smoketest.py``.

``python smoketest.py --cluster`` instead checks this node of a cluster for known problems.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from interreplay.experiments.commands.installation import MODULES, ROOT, distribution, requirements
from interreplay.experiments.flags.reading import OneLineParser

ENV = "InvertedPendulum-v5"
REINSTALL = f"{sys.executable} -m pip install --force-reinstall --no-deps"


class Failure(Exception):
    """A failed check, and how to fix it."""

    def __init__(self, problem: str, fix: str):
        super().__init__(problem)
        self.fix = fix


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    description = __doc__.splitlines()[0].replace("``", "")
    parser = OneLineParser(prog="smoketest.py", description=description, allow_abbrev=False)
    parser.add_argument("--cluster", action="store_true", help="check this node of a cluster, preferably inside a job")
    parser.add_argument(
        "--output_dir",
        "--output-dir",
        "--results_dir",
        "--results-dir",
        metavar="DIR",
        default="results",
        help="folder of results (default: %(default)s)",
    )
    return parser


def main(argv: Sequence[str] = ()) -> int:
    """Run all checks, one line each; return the exit code."""
    args = make_parser().parse_args(argv)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    failed = 0
    for name, check in cluster_checks(Path(args.output_dir)) if args.cluster else checks():
        try:
            line = f"ok    {name}: {check()}"
        except Exception as error:  # every problem is reported, and the other checks still run
            failed += 1
            problem = str(error) if hasattr(error, "fix") else f"{type(error).__name__}: {first_line(error)}"
            line = f"FAIL  {name}: {problem}\n      fix: {hint(error)}"
        print(line, flush=True)
    verdict = f"{failed} checks failed; fix the first one first" if failed else "all checks passed"
    print(f"{verdict} ({time.monotonic() - start:.0f} s)")
    return int(failed > 0)


def checks() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks in the order in which they build on each other."""
    yield "python", python_version
    for text in requirements():
        yield distribution(text), lambda text=text: package(text)  # type: ignore[misc]
    yield "mujoco steps", mujoco_steps
    try:
        names = list(catalogue())
    except Exception:
        yield "replay buffers", lambda: str(catalogue())
        names = []
    for name in names:
        yield f"buffer {name}", lambda name=name: buffer_samples(name)  # type: ignore[misc]
    yield "training", training


def catalogue() -> dict[str, Any]:
    """Return the replay methods by name."""
    from interreplay.buffer.catalogue import methods  # imports PyTorch, which may be broken

    return methods()


def cluster_checks(results: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks of this node; ``results`` is the folder of results."""
    try:
        from interreplay.experiments.cluster_checks import checks as node
    except Exception as error:
        broken = error
        yield "installation", lambda: raise_again(broken)
    else:
        yield from node.checks(ROOT / "cluster_deployment", results)


def raise_again(error: Exception) -> str:
    """Fail with an earlier error."""
    raise error


def python_version() -> str:
    """Check that Python is new enough."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 10):  # noqa: UP036 - an older Python may run this file
        raise Failure(f"{version} is older than 3.10", "make clean install PYTHON=python3.11")
    return version


def package(requirement: str) -> str:
    """Check that a package is installed in an accepted version, and can be imported."""
    name = distribution(requirement)
    fix = f'{sys.executable} -m pip install "{requirement}"'
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise Failure("not installed", fix) from None
    try:
        accepted = importlib.import_module("packaging.requirements").Requirement(requirement).specifier
    except ImportError:
        accepted = None  # without packaging, versions are shown but not checked
    if accepted is not None and version.split("+")[0] not in accepted:
        raise Failure(f"{version} is installed, {accepted} is required", fix)
    try:
        importlib.import_module(MODULES.get(name, name))
    except Exception as error:
        raise Failure(
            f"{version} is installed but cannot be imported: {first_line(error)}", f"{REINSTALL} {name}"
        ) from error
    return version


def mujoco_steps() -> str:
    """Check that a MuJoCo environment can be created and stepped."""
    env = importlib.import_module("gymnasium").make(ENV)
    env.reset(seed=0)
    for _ in range(10):
        observation = env.step(env.action_space.sample())[0]
    env.close()
    return f"{ENV}, observations of {observation.shape[0]} numbers"


def buffer_samples(name: str) -> str:
    """Check that a replay method stores transitions and returns finite ones."""
    np = importlib.import_module("numpy")
    interreplay = importlib.import_module("interreplay")
    part = importlib.import_module("interreplay.part")
    rng = np.random.default_rng(0)
    n = 300
    ends = np.arange(1, n + 1) % 50 == 0
    obs = rng.normal(size=(n + 1, 4)).astype(np.float32)
    rows = {"actions": rng.uniform(-1, 1, (n, 2)).astype(np.float32), "rewards": rng.normal(size=n).astype(np.float32)}
    arguments = {}
    before = obs[:-1]
    after = obs[1:]
    if name == "HER":  # learns from goals only
        arguments = {"compute_reward": lambda achieved, desired, info: -abs(achieved - desired).sum(axis=-1)}
        before = with_goals(before)
        after = with_goals(after)
    recipe = catalogue()[name]
    buffer = recipe(capacity=1_000, seed=0, **arguments)
    buffer.connect(part.Context(score=sizes_of_rewards))  # LaBER draws by scores of an algorithm
    buffer.add(
        interreplay.Transitions(obs=before, next_obs=after, terminated=ends, truncated=np.zeros(n, bool), **rows)
    )
    for column, values in buffer.sample(64).transitions.columns().items():
        if not bool(values.isfinite().all()):
            raise Failure(f"{column} of a sample are not finite", f"{REINSTALL} interreplay")
    return f"{n} transitions in, 64 out"


def sizes_of_rewards(rows: Any, names: Collection[str]) -> dict[str, Any]:
    """Return scores ``(n,)`` of `rows` under any names, for methods that request an algorithm's scores."""
    return {name: rows.rewards.abs() for name in names}


def with_goals(obs: Any) -> dict[str, Any]:
    """Return observations with the first two numbers as achieved goal and the next two as desired goal."""
    return {"observation": obs, "achieved_goal": obs[:, :2], "desired_goal": obs[:, 2:]}


def training() -> str:
    """Check that SAC trains for 600 steps and is restored from a checkpoint."""
    importlib.import_module("interreplay.rllib.ray_session").prepare_host(threads=1, workers=0)
    config = importlib.import_module("interreplay.rllib").SACConfig().environment(ENV).replay("NMER", capacity=10_000)
    config.training(num_steps_sampled_before_learning_starts=200, train_batch_size_per_learner=64, hiddens=(64, 64))
    config.reporting(min_sample_timesteps_per_iteration=600).debugging(seed=0)
    algo = config.build_algo()
    copy = config.build_algo()
    with tempfile.TemporaryDirectory() as folder:
        algo.train()
        algo.save_to_path(f"{folder}/checkpoint")
        copy.restore_from_path(f"{folder}/checkpoint")
    steps = algo.env_steps, copy.env_steps
    algo.stop()
    copy.stop()
    if steps[0] != steps[1]:
        raise Failure(f"saved at step {steps[0]}, restored at step {steps[1]}", f"{REINSTALL} interreplay")
    return f"SAC with NMER, {steps[0]} steps, saved and restored"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [""])[0]


def hint(error: BaseException) -> str:
    """Return how to fix an error: its own advice, or a guess."""
    if hasattr(error, "fix"):
        return str(error.fix)
    if isinstance(error, ImportError) and error.name:
        return f"{sys.executable} -m pip install {error.name.split('.')[0]}   (or: make install)"
    return "fix the failures above; if there are none: make clean install"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
