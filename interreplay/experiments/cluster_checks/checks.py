"""Checks of a cluster's node: each returns what it found, or raises `NodeProblem` with a fix."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from interreplay.experiments.process.machine import MEMORY_FILES, control_groups

SOCKET = "ray/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The path that Ray appends to its folder for a socket, with the longest possible process id."""
NEEDED_MEMORY = 1.5e9
NEEDED_SHARED_MEMORY = 80e6
NEEDED_LIMITS = {
    "threads": (resource.RLIMIT_NPROC, 2_000, "u"),
    "files": (resource.RLIMIT_NOFILE, 4_096, "n"),
}
"""Limits of one user: the resource, the number needed, and the flag of ``ulimit``."""


class NodeProblem(Exception):
    """A problem of a node, and how to fix it."""

    def __init__(self, problem: str, fix: str):
        super().__init__(problem)
        self.fix = fix


def checks(scripts: Path, results: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the names and functions of all checks. Earlier problems can cause later ones.

    Args:
        scripts: The folder ``cluster_deployment``.
        results: The folder for results.
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
    """Return the id of the job and the name of the node."""
    if not shutil.which("scontrol"):
        raise NodeProblem("Slurm is not installed here", "run this on a node of the cluster")
    if "SLURM_JOB_ID" not in os.environ:
        command = " ".join([sys.executable, *sys.argv])
        raise NodeProblem(
            f"{socket.gethostname()} is checked outside of a job, where other limits apply",
            f"srun --ntasks=1 {command}, with the options of your jobs",
        )
    return f"{os.environ['SLURM_JOB_ID']} on {socket.gethostname()}"


def requeueing() -> str:
    """Check that the job can be requeued. Return when it ends."""
    shown = job_description()
    if not shown:
        return "not inside of a job"
    if "Requeue=0" in shown:
        raise NodeProblem("this job cannot be requeued", "sbatch --requeue, or submit the same command again")
    end = re.search(r"EndTime=(\S+)", shown)
    return f"allowed; the job ends at {end[1] if end else 'an unknown time'}"


def job_description() -> str:
    """Return scontrol's description of the job, "" outside of jobs."""
    if "SLURM_JOB_ID" not in os.environ:
        return ""
    command = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except OSError:
        return ""


def cpus() -> str:
    """Check that a process can use all CPUs of the job, and that libraries start no more threads than that."""
    usable = len(os.sched_getaffinity(0))
    node = os.cpu_count() or 1
    owned = int(os.environ.get("SLURM_CPUS_ON_NODE", usable))
    if usable < owned:
        raise NodeProblem(
            f"a process may use {usable} of the job's {owned} CPUs", "srun --cpu-bind=none, or -c with all of them"
        )
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        threads = os.environ.get(name, "1")
        if threads.isdigit() and int(threads) > owned:
            raise NodeProblem(f"{name}={threads}, with {owned} CPUs", f"unset {name}")
    return f"{owned}" if node == owned else f"{owned}, Ray by itself would use {node}"


def memory() -> str:
    """Check that the job has enough memory for a run."""
    node = psutil.virtual_memory().total
    owned = min(node, slurm_memory() or node, cgroup_memory() or node)
    if owned < NEEDED_MEMORY:
        raise NodeProblem(f"{owned / 1e9:.1f} GB; one run takes 1.5 GB and its replay buffer", "sbatch --mem=4G")
    return f"{owned / 1e9:.1f} of the node's {node / 1e9:.1f} GB"


def slurm_memory() -> float:
    """Return the memory requested for the job on this node in bytes, 0 if it is unknown."""
    match = re.search(r"MinMemory(Node|CPU)=([\d.]+)([KMGT]?)", job_description())
    if not match:
        return 0.0
    unit = 1024.0 ** ("KMGT".index(match[3] or "M") + 1)
    shares = float(os.environ.get("SLURM_CPUS_ON_NODE", 1)) if match[1] == "CPU" else 1.0
    return shares * float(match[2]) * unit


def cgroup_memory() -> float:
    """Return the narrowest memory limit of this process's control groups in bytes, 0 without a limit."""
    found = []
    for version, group in control_groups(Path("/"), "memory"):
        try:
            found.append(float((group / MEMORY_FILES[version][0]).read_text()))
        except (OSError, ValueError):  # no such file, or the limit is "max"
            continue
    return min(found, default=0.0)


def shared_memory() -> str:
    """Check that there is room for the objects that Ray's processes share."""
    free = shutil.disk_usage("/dev/shm").free
    if free < NEEDED_SHARED_MEMORY:
        raise NodeProblem(
            f"{free / 1e6:.0f} MB free in /dev/shm; Ray requires {NEEDED_SHARED_MEMORY / 1e6:.0f}",
            "a container's --shm-size, or bind the node's /dev/shm into it",
        )
    return f"{free / 1e6:.0f} MB free"


def limits() -> str:
    """Check the limits of threads and open files of this user."""
    found = []
    for name, (kind, needed, letter) in NEEDED_LIMITS.items():
        limit = resource.getrlimit(kind)[1]
        if 0 <= limit < needed:
            raise NodeProblem(
                f"one user may have {limit} {name}; expected at least {needed}",
                f"ask for a higher `ulimit -{letter}`; until then fewer runs at a time: --max-concurrent, --at-once",
            )
        found.append(f"{'no limit of' if limit < 0 else limit} {name}")
    return ", ".join(found)


def gpus() -> str:
    """Check that torch sees the GPUs of the job."""
    import torch

    listed = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("SLURM_JOB_GPUS", ""))
    given = len([word for word in listed.split(",") if word not in ("", "-1", "NoDevFiles")])
    if "SLURM_JOB_ID" in os.environ and not given and torch.cuda.is_available():
        raise NodeProblem("the job requested no GPU, but sees GPUs of others", "sbatch --gres=gpu:1")
    seen = torch.cuda.device_count()
    if given > seen:
        build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a build of torch without CUDA"
        raise NodeProblem(f"torch sees {seen} of {given} GPUs", f"nvidia-smi should list them; this is {build}")
    return f"{given}" if given else "none"


def scratch(scripts: Path) -> str:
    """Check that there is a folder on a local disk whose path is short enough."""
    folder = Path(chosen_scratch(scripts))
    free = shutil.disk_usage(folder.parent).free
    if free < 2e9:
        raise NodeProblem(f"{free / 1e9:.1f} GB free in {folder.parent}", "another folder: submit.py --scratch")
    return f"{folder}, {free / 1e9:.0f} GB free"


def chosen_scratch(scripts: Path) -> str:
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


def sockets(scripts: Path) -> str:
    """Check that a socket with a path as long as Ray's can be made in the scratch folder."""
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
    """Check that this node has an address for other nodes, and that it accepts connections there."""
    outer = []
    for interface in psutil.net_if_addrs().values():
        outer += [a.address for a in interface if a.family == socket.AF_INET and not a.address.startswith("127.")]
    if not outer:
        raise NodeProblem("only 127.0.0.1, so jobs of several nodes are not possible", "jobs of one node work without")
    try:
        with socket.create_server((outer[0], 0)) as server, socket.create_connection(server.getsockname(), timeout=5):
            return ", ".join(outer)
    except OSError as error:
        raise NodeProblem(f"{outer[0]} accepts no connection: {error}", "export INTERREPLAY_HEAD_IP=ANOTHER") from None


def settings() -> str:
    """Check that no environment variable leads to another cluster, or opens this one to other users."""
    if "RAY_ADDRESS" in os.environ:
        raise NodeProblem(f"RAY_ADDRESS={os.environ['RAY_ADDRESS']} leads to another cluster", "unset RAY_ADDRESS")
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode != "token":
        raise NodeProblem(f"RAY_AUTH_MODE={mode}: other users of the node can use your Ray", "unset RAY_AUTH_MODE")
    own = 0
    for process in psutil.process_iter(["name", "uids"]):
        uids = process.info["uids"]
        own += process.info["name"] == "raylet" and uids is not None and uids.real == os.getuid()
    others = f"; {own} Rays of yours run here, so never call ray stop" if own else ""
    return f"every job has a token of its own{others}"


def results_folder(results: Path) -> str:
    """Check that files can be written and replaced atomically. Return whether the file system has locks."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=results) as folder:
            old = Path(folder, "old")
            new = Path(folder, "new")
            old.write_text("old")
            with new.open("w") as file:
                file.write("new")
                file.flush()
                os.fsync(file.fileno())
                locks = lockable(file.fileno())
            new.replace(old)
            if old.read_text() != "new":
                raise OSError("a replaced file still shows its old contents")
    except OSError as error:
        raise NodeProblem(f"{results}: {error}", "another folder: --output_dir") from None
    return f"{results.resolve()}, {'with' if locks else 'without'} locking"


def lockable(descriptor: int) -> bool:
    """Return whether a file can be locked."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def two_at_once(scripts: Path) -> str:
    """Check that two Rays of one user can start on this node at the same time, as in a job array."""
    code = (
        "import ray; ray.init(address='local', num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False,"
        " log_to_driver=False, logging_level='ERROR'); print(ray.get(ray.remote(lambda: 7).remote()))"
    )
    folders = [chosen_scratch(scripts) + letter for letter in "ab"]
    started = []
    try:
        for folder in folders:
            own = {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()}
            command = [sys.executable, "-c", code]
            started.append(
                subprocess.Popen(command, env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            )
        results = [process.communicate(timeout=120) for process in started]
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    for process, (out, err) in zip(started, results, strict=True):
        if process.returncode or b"7" not in out:
            lines = err.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise NodeProblem(
                f"one of them ended with exit code {process.returncode}: {lines[-1]}", "fix the first failure above"
            )
    return "both run a task"
