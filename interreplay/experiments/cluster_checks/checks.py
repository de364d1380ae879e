"""Would runs on this node of a cluster step into a known trap? Each check says what it found, or how to fix it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from interreplay.experiments.cluster_checks.limits import NodeProblem, cpus, gpus, limits, memory, output, shared_memory

# What Ray appends to its folder when it makes a socket, with the longest process id there is.
SOCKET = "ray/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"


def checks(scripts: Path, results: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks in the order in which to fix problems.

    Args:
        scripts: The folder ``cluster_deployment``.
        results: Where results will go.
    """
    yield "job", job
    yield "requeueing", requeueing
    yield "CPUs", cpus
    yield "memory", memory
    yield "shared memory", shared_memory
    yield "threads and files", limits
    yield "GPUs", gpus
    yield "scratch folder", partial(scratch, scripts)
    yield "sockets", partial(sockets, scripts)
    yield "addresses", addresses
    yield "Ray's settings", settings
    yield "results folder", partial(results_folder, results)
    yield "two Rays at once", partial(two_at_once, scripts)


def job() -> str:
    """Return which job this is."""
    if not shutil.which("scontrol"):
        raise NodeProblem(
            "there is no Slurm here", "run this on a node of the cluster; elsewhere python cluster_run.py needs none"
        )
    if "SLURM_JOB_ID" not in os.environ:
        raise NodeProblem(
            f"{socket.gethostname()} is looked at from outside of a job, whose limits are others",
            f"srun --ntasks=1 {' '.join(map(str, [sys.executable, *sys.argv]))}, with the options of your jobs",
        )
    return f"{os.environ['SLURM_JOB_ID']} on {socket.gethostname()}"


def requeueing() -> str:
    """Check that the job may go back into the queue, and the scheduler says when the job ends."""
    if "SLURM_JOB_ID" not in os.environ:
        return "not inside of a job"
    shown = output("scontrol", "show", "job", os.environ["SLURM_JOB_ID"])
    if "Requeue=0" in shown:
        raise NodeProblem(
            "this job may not be requeued", "sbatch --requeue; where that is refused, submit again by hand"
        )
    end = re.search(r"EndTime=(\S+)", shown)
    return f"allowed; the job ends at {end[1] if end else 'a time that is not known'}"


def scratch(scripts: Path) -> str:
    """Check that there is a folder on the node's own disk whose path is short enough."""
    folder = Path(chosen_scratch(scripts))
    free = shutil.disk_usage(folder.parent).free
    if free < 2e9:
        raise NodeProblem(f"{free / 1e9:.1f} GB free in {folder.parent}", "another folder: submit.py --scratch")
    return f"{folder}, {free / 1e9:.0f} GB free"


def chosen_scratch(scripts: Path) -> str:
    """Return what the batch scripts would take."""
    if not (scripts / "common.sh").is_file():
        raise NodeProblem(f"there is no {scripts}", "run the smoketest.py of a clone of the repository")
    env = {"SLURM_JOB_ID": "1234567"} | os.environ
    done = subprocess.run(
        ["bash", "-c", f'. "{scripts}/common.sh" && choose_scratch'],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise NodeProblem(
            done.stderr.strip().partition("error: ")[2] or done.stderr.strip(), "submit.py --scratch FOLDER"
        )
    return done.stdout.strip()


def sockets(scripts: Path) -> str:
    """Check that a socket with as long a path as Ray's can be made there."""
    folder = Path(chosen_scratch(scripts) + "x")
    path = folder / SOCKET
    try:
        path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    except OSError as error:
        raise NodeProblem(f"{path}: {error}", "a shorter folder on the node's own disk: submit.py --scratch") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{len(str(path))} of 107 bytes"


def addresses() -> str:
    """Check that this node has an address that others can reach, and ports can be opened there."""
    found = [a.address for values in psutil.net_if_addrs().values() for a in values if a.family == socket.AF_INET]
    outer = [address for address in found if not address.startswith("127.")]
    if not outer:
        raise NodeProblem("only 127.0.0.1, so jobs of several nodes are not possible", "jobs of one node work without")
    try:
        with socket.create_server((outer[0], 0)) as server, socket.create_connection(server.getsockname(), timeout=5):
            return ", ".join(outer)
    except OSError as error:
        raise NodeProblem(f"{outer[0]} cannot be talked to: {error}", "export INTERREPLAY_HEAD_IP=ANOTHER") from None


def settings() -> str:
    """Check that nothing in this environment leads to another cluster, or opens this one to others."""
    if "RAY_ADDRESS" in os.environ:
        raise NodeProblem(f"RAY_ADDRESS={os.environ['RAY_ADDRESS']} leads to another cluster", "unset RAY_ADDRESS")
    if os.environ.get("RAY_AUTH_MODE", "token") != "token":
        raise NodeProblem(
            f"RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']}: everybody here could use your Ray", "unset RAY_AUTH_MODE"
        )
    mine = [p for p in psutil.process_iter(["name", "uids"]) if p.info["name"] == "raylet"]
    mine = [p for p in mine if p.info["uids"] and p.info["uids"].real == os.getuid()]
    others = f"; {len(mine)} Rays of yours run here, so never call ray stop" if mine else ""
    return f"every job has a token of its own{others}"


def results_folder(results: Path) -> str:
    """Check that files can be written there and replaced as a whole; whether they can be locked."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=results) as folder:
            old, new = Path(folder, "old"), Path(folder, "new")
            old.write_text("old")
            with new.open("w") as file:
                file.write("new")
                file.flush()
                os.fsync(file.fileno())
                locks = lockable(file.fileno())
            new.replace(old)
            if old.read_text() != "new":
                raise OSError("a file that was replaced shows what it held before")
    except OSError as error:
        raise NodeProblem(f"{results}: {error}", "another folder: --output_dir") from None
    return f"{results.resolve()}, {'with' if locks else 'without'} locking"


def lockable(descriptor: int) -> bool:
    """Return whether the file's file system has locks."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def two_at_once(scripts: Path) -> str:
    """Check that two Rays of one user start on this node at the same time, as in a job array."""
    code = "import ray; ray.init(address='local', num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False,"
    code += " log_to_driver=False, logging_level='ERROR'); print(ray.get(ray.remote(lambda: 7).remote()))"
    base = chosen_scratch(scripts)
    folders = [base + letter for letter in "ab"]
    own = [{"RAY_TMPDIR": f, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()} for f in folders]
    try:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for env in own
        ]
        results = [process.communicate(timeout=120) for process in started]
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    for process, (out, err) in zip(started, results, strict=True):
        if process.returncode or b"7" not in out:
            last = (err.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
            raise NodeProblem(f"one of them ended with exit code {process.returncode}: {last}", "fix what failed above")
    return "both run a task"
