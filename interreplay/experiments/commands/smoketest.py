"""Check the installation in under a minute and explain how to fix it: ``python smoketest.py``.

``python smoketest.py --cluster`` instead checks this node of a cluster for known problems.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from interreplay.errors import describe_error
from interreplay.experiments.commands.installation import MODULES, ROOT, distribution, requirements
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.experiments.process import node_checks
from interreplay.experiments.process.node_checks import NodeProblem

ENV = "InvertedPendulum-v5"
REINSTALL = f"{sys.executable} -m pip install --force-reinstall --no-deps"


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    description = __doc__.splitlines()[0].replace("``", "")
    parser = OneLineParser(prog="smoketest.py", description=description)
    parser.add_argument("--cluster", action="store_true", help="check this node of a cluster, preferably inside a job")
    names = ("--output_dir", "--output-dir", "--results_dir", "--results-dir")
    parser.add_argument(*names, metavar="DIR", default="results", help="folder of results (default: %(default)s)")
    return parser


def main(argv: Sequence[str] = ()) -> int:
    """Run all checks, one line each; return the exit code."""
    return make_parser().run(act, argv, stopped="stopped")


def act(args: argparse.Namespace) -> int:
    """Run the checks; return the exit code, 1 if one fails."""
    warnings.simplefilter("ignore")
    start = time.monotonic()
    failed = 0
    chosen = checks()
    if args.cluster:
        chosen = node_checks.checks(ROOT / "cluster_deployment", Path(args.output_dir))
    for name, check in chosen.items():
        try:
            line = f"ok    {name}: {check()}"
        except Exception as error:  # every problem is reported, and the other checks still run
            failed += 1
            problem = str(error)
            if not isinstance(error, NodeProblem):
                message, _, _ = problem.strip().partition("\n")
                problem = f"{type(error).__name__}: {message}".removesuffix(": ")
            line = f"FAIL  {name}: {problem}\n      fix: {hint(error)}"
        print(line, flush=True)
    verdict = f"{failed} of {len(chosen)} checks failed; fix the first one first" if failed else "all checks passed"
    print(f"{verdict} ({time.monotonic() - start:.0f} s)")
    return int(failed > 0)


def checks() -> dict[str, Callable[[], str]]:
    """Return the checks by name, in the order in which they build on each other."""
    packages = {distribution(text): partial(package, text) for text in requirements()}
    return {**packages, "mujoco steps": mujoco_steps, "training": training}


def package(requirement: str) -> str:
    """Check that a package is installed in an accepted version, and can be imported."""
    name = distribution(requirement)
    fix = f'{sys.executable} -m pip install "{requirement}"'
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise NodeProblem("not installed", fix) from None
    accepted = importlib.import_module("packaging.requirements").Requirement(requirement).specifier
    if version.split("+")[0] not in accepted:
        raise NodeProblem(f"{version} is installed, {accepted} is required", fix)
    try:
        importlib.import_module(MODULES.get(name, name))
    except Exception as error:
        problem = f"{version} is installed but cannot be imported: {describe_error(error)}"
        raise NodeProblem(problem, f"{REINSTALL} {name}") from error
    return version


def mujoco_steps() -> str:
    """Check that a MuJoCo environment can be created and stepped."""
    env = importlib.import_module("gymnasium").make(ENV)
    env.reset(seed=0)
    for _ in range(10):
        observation = env.step(env.action_space.sample())[0]
    env.close()
    return f"{ENV}, observations of {observation.shape[0]} numbers"


def training() -> str:
    """Check that SAC trains for 600 steps and is restored from a checkpoint."""
    # One worker, so that Ray starts as it does in studies.
    importlib.import_module("interreplay.rllib.ray_session").prepare_host(threads=1, workers=1)
    config = importlib.import_module("interreplay.rllib").SACConfig().environment(ENV).replay("NMER", capacity=10_000)
    config.training(num_steps_sampled_before_learning_starts=200, train_batch_size_per_learner=64, hiddens=(64, 64))
    config.reporting(min_sample_timesteps_per_iteration=600).debugging(seed=0)
    algo = config.build_algo()
    copy = config.build_algo()
    with tempfile.TemporaryDirectory() as folder:
        algo.train()
        algo.save_to_path(f"{folder}/checkpoint")
        copy.restore_from_path(f"{folder}/checkpoint")
    steps = algo.env_steps
    restored = copy.env_steps
    algo.stop()
    copy.stop()
    if steps != restored:
        raise NodeProblem(f"saved at step {steps}, restored at step {restored}", f"{REINSTALL} interreplay")
    return f"SAC with NMER, {steps} steps, saved and restored"


def hint(error: BaseException) -> str:
    """Return how to fix an error: its own hint, or a guess."""
    if isinstance(error, NodeProblem):
        return error.fix
    if isinstance(error, ImportError) and error.name:
        return f"{sys.executable} -m pip install {error.name.split('.')[0]}   (or: make install)"
    return "fix the failures above; if there are none: make clean install"
