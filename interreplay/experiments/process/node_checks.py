"""Checks of a cluster's node: each returns what it found, or raises `NodeProblem` with a fix."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

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


def checks(scripts: Path, results: Path) -> dict[str, Callable[[], str]]:
    """Return all checks; `scripts` is the folder ``cluster_deployment``. Earlier problems can cause later ones."""
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
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return "both run a task"
