"""Check the installation, in about a minute, and explain how to fix it: ``python smoketest.py``.

``python smoketest.py --cluster`` instead checks this node of a cluster for known problems.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import shutil
import socket
import subprocess
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

ENV = "InvertedPendulum-v5"
REINSTALL = f"{sys.executable} -m pip install --force-reinstall --no-deps"
SOCKET = "ray/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The path that Ray appends to its folder for a socket, with the longest possible process id."""
NEEDED_SCRATCH = 2e9
START_RAY = (
    "import ray; ray.init(address='local', num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False,"
    " log_to_driver=False, logging_level='ERROR'); print(ray.get(ray.remote(lambda: 7).remote()))"
)


class NodeProblem(Exception):
    """A problem of a node or an installation, and how to fix it."""

    def __init__(self, problem: str, fix: str):
        super().__init__(problem)
        self.fix = fix


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    description = __doc__.splitlines()[0].replace("``", "")
    parser = OneLineParser(prog="smoketest.py", description=description)
    parser.add_argument("--cluster", action="store_true", help="check this node of a cluster, preferably inside a job")
    names = ("--output_dir", "--output-dir", "--results_dir", "--results-dir")
    text = "with --cluster: folder of results to check (default: %(default)s)"
    parser.add_argument(*names, metavar="DIR", default="results", help=text)
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
        chosen = node_checks(ROOT / "cluster_deployment", Path(args.output_dir))
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


def node_checks(scripts: Path, results: Path) -> dict[str, Callable[[], str]]:
    """Return the checks of a node of a cluster; `scripts` is the folder ``cluster_deployment``."""
    return {
        "GPUs": gpus,
        "scratch folder": partial(scratch, scripts),
        "results folder": partial(results_folder, results),
        "two Rays at once": partial(check_two_rays, scripts),
    }


def gpus() -> str:
    """Check that torch sees the GPUs of the job."""
    import torch

    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    given = 0
    if listed not in ("", "-1", "NoDevFiles"):  # NoDevFiles is Slurm's value for no GPUs
        given = len(listed.split(","))
    seen = torch.cuda.device_count()
    if given > seen:
        build = torch.version.cuda or "no CUDA"
        raise NodeProblem(f"torch sees {seen} of {given} GPUs", f"nvidia-smi should list them; torch is for {build}")
    return str(given)


def scratch(scripts: Path) -> str:
    """Check that a local disk has free space, and that Ray's longest socket path can be created on it."""
    folder = Path(choose_scratch(scripts) + "x")
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_SCRATCH:
        raise NodeProblem(f"{free / 1e9:.1f} GB free in {folder.parent}", "another folder: submit.py --scratch")
    path = folder / SOCKET
    try:
        path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    except OSError as error:
        raise NodeProblem(f"{path}: {error}", "a shorter folder on the node's own disk: submit.py --scratch") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{folder.parent}, {free / 1e9:.0f} GB free"


def choose_scratch(scripts: Path) -> str:
    """Return the scratch folder that the batch scripts choose."""
    if not (scripts / "common.sh").is_file():
        raise NodeProblem(f"{scripts} does not exist", "run the smoketest.py of a clone of the repository")
    done = subprocess.run(
        ["bash", "-c", f'. "{scripts}/common.sh" && choose_scratch'],
        env={"SLURM_JOB_ID": "1234567"} | os.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise NodeProblem(done.stderr.strip().rpartition("error: ")[2], "submit.py --scratch FOLDER")
    return done.stdout.strip()


def results_folder(results: Path) -> str:
    """Check that files can be written and replaced atomically."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=results) as folder:
            old = Path(folder, "old")
            new = Path(folder, "new")
            old.write_text("old")
            new.write_text("new")
            new.replace(old)
            if old.read_text() != "new":
                raise OSError("a replaced file still shows its old contents")
    except OSError as error:
        raise NodeProblem(f"{results}: {error}", "another folder: --output_dir") from None
    return str(results.resolve())


def check_two_rays(scripts: Path) -> str:
    """Check that two Rays of one user can start on this node at the same time, as in a job array."""
    folders = [choose_scratch(scripts) + "a", choose_scratch(scripts) + "b"]
    started = []
    try:
        for folder in folders:
            own = {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()}
            process = subprocess.Popen(
                [sys.executable, "-c", START_RAY],
                env=os.environ | own,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            started.append(process)
        for process in started:
            out, err = process.communicate(timeout=120)
            if process.returncode or "7" not in out:
                lines = err.strip().splitlines() or ["no reason given"]
                raise NodeProblem(
                    f"one of them ended with exit code {process.returncode}: {lines[-1]}", "fix the first failure above"
                )
    finally:
        for process in started:
            process.kill()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return "both run a task"
