"""A real Slurm: an array, a job that is warned and requeued, and a job of two nodes of which one dies.

Each job proves several properties, and all of them run at the same time.
"""

import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders import same_state
from slurm_jobs import HOME, RUN, Job, command, end_all, nodes, weights, why_not

from tests.experiments.commands.command_lines import steps

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
STEPS = 300
CURVE = [100, 200, 300]
NAMES = [f"{RUN[:-1]}{seed}" for seed in range(3)]

# In a step on the node: ends every process of Ray's there at once, as if the node's memory had run out.
KILL_DAEMONS = """
pids=() names=()
for process in /proc/[0-9]*; do
    tr '\\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q -- "$FOLDER/n" || continue
    pids+=("${process#/proc/}") names+=("$(cat "$process/comm")")
done
kill -KILL "${pids[@]}" && echo "killed ${names[@]}"
"""


@pytest.fixture(scope="module")
def slurm():
    """Return the names of two nodes; skip if Slurm does not answer or has fewer."""
    if reason := why_not():
        pytest.skip(reason)
    if len(found := nodes()) < 2:
        pytest.skip(f"two nodes are needed, there is {found}")
    return found[:2]


@pytest.fixture(scope="module")
def folder(slurm):
    """Return a folder that all nodes can access, like the repository."""
    path = HOME / "results" / f"slurm-tests-{os.getpid()}"
    path.mkdir(parents=True)
    yield path
    end_all()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def jobs(slurm, folder):
    """Submit a job on the second node, a job on both nodes, and an array of three runs."""
    # A warning with less time left than is kept for saving: the job has to stop.
    env = {"INTERREPLAY_STAGGER": "0", "INTERREPLAY_STOP_BEFORE": "3600"}
    first, second = (f"--sbatch=--nodelist={node}" for node in slurm)
    return {
        "warned": Job(folder / "warned", "concurrent", second, **env),
        "both": Job(folder / "both", "concurrent", f"--nodes 2 --sbatch=--nodelist={','.join(slurm)}", seeds=2),
        "array": Job(folder / "array", "single", f"--runs 0-2 {first}", seeds=3, **env),
    }


def warn(job, task="", name=RUN):
    """Send a warning to a job after the second checkpoint of a run, and wait until the run has stopped."""
    job.until(lambda: job.saved_steps(name) >= 200, f"a checkpoint of {name}")
    command("scancel", "--batch", f"--signal={signal.SIGUSR1.value}", job.id + task)
    job.until(lambda: job.saved_steps(name) > 200, f"the stop of {name}")


def interrupt(job):
    """Warn the second run of an array and cancel the third; return the array after the end of all runs."""
    job.go("_0")
    warn(job, "_1", NAMES[1])
    job.go("_1")
    job.until(lambda: job.saved_steps(NAMES[2]) >= 200, "a checkpoint of the third run")
    command("scancel", f"{job.id}_2")
    canceled = time.monotonic()
    job.finish("_0")
    job.finish("_1")
    job.finish("_2", expected="CANCELLED")
    time.sleep(max(0, canceled + 8 - time.monotonic()))  # a requeued job would be back by then
    return job


@pytest.fixture(scope="module", autouse=True)
def interrupted(jobs):
    """Interrupt the array while the tests interrupt the other jobs."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(interrupt, jobs["array"])


@pytest.fixture(scope="module")
def array(interrupted):
    return interrupted.result()


@pytest.fixture(scope="module")
def victim(slurm, jobs):
    """Return the run on the second node of the job on both nodes, after its second checkpoint."""
    job = jobs["both"]
    found = []

    def look():
        found[:] = [name for name in NAMES[:2] if any(job.run(name).glob(f"events.out.*.{slurm[1]}*"))]
        return found and job.saved_steps(found[0]) >= 200

    job.until(look, f"a checkpoint of a run on {slurm[1]}")
    return found[0]


@pytest.fixture(scope="module")
def warned(jobs, victim):
    """Warn the job on the second node, which ends its Ray, while the job on both nodes runs there; return it."""
    job = jobs["warned"]
    warn(job)
    job.until(lambda: "requeueing" in job.log(), "the end of Ray on the node")
    job.go()
    return job


def test_only_the_run_of_killed_daemons_is_repeated(slurm, jobs, victim, warned):
    """The run does not fail when the Ray of another job on its node ends."""
    job = jobs["both"]
    assert job.status(victim)["starts"] == 1
    (worker,) = job.results.glob(f"slurm/ray-*/{slurm[1]}.log")
    rays = next(word.split("/n0")[0] for word in worker.read_text().split() if "/n0/session_" in word)
    step = ["srun", f"--jobid={job.id}", "--overlap", "-N1", "-n1", "-w", slurm[1]]
    assert "raylet" in command(*step, f"--export=ALL,FOLDER={rays}", "bash", "-c", KILL_DAEMONS)
    job.until(lambda: "trying again" in job.log(), "another start")
    job.go()
    job.finish()
    assert "2 of 2 nodes" in job.log() and "2 runs at a time" in job.log()
    rows = {row["name"]: row for row in job.rows()}
    assert [rows[name]["state"] for name in NAMES[:2]] == ["finished"] * 2 and len(rows) == 2
    for name, row in rows.items():
        assert (row["starts"], row["failures"]) == (("2", "1") if name == victim else ("1", "0"))
    assert rows[victim]["last_failure"] and job.status(victim)["begun_at"] >= 200
    assert f"{victim}: failed, trying again from its last checkpoint" in job.log()


def test_warned_jobs_are_requeued_and_a_canceled_one_is_not(warned, array):
    warned.finish()
    for job, task, restarts in ((warned, "", "1"), (array, "_1", "1"), (array, "_0", "0")):
        assert job.scheduler_state(task)["Restarts"] == restarts
        assert "warning of the scheduler" in job.log()
    assert array.states("_2") == {"CANCELLED"} and array.status(NAMES[2])["starts"] == 1, array.log()


def test_results_are_the_same_with_and_without_interruptions(jobs, array, warned):
    """Of the second seed, one or both runs were interrupted."""
    both = jobs["both"]
    both.finish()
    warned.finish()
    for job, name, starts in ((array, NAMES[0], 1), (array, NAMES[1], 2), (warned, RUN, 2)):
        status = job.status(name)
        assert (status["state"], status["env_steps"], status["starts"]) == ("finished", STEPS, starts)
        assert (200 < status["begun_at"] < STEPS) == (starts == 2)
    for job, name in ((both, NAMES[0]), (both, NAMES[1]), (warned, RUN)):
        assert steps(job.run(name)) == steps(array.run(name)) == CURVE
        same_state(weights(array.run(name), STEPS), weights(job.run(name), STEPS))


def test_the_smoke_test_finds_no_problem_inside_of_a_job(folder):
    """It waits for a CPU until the other jobs have ended."""
    words = ["srun", "--ntasks=1", "--mem=2500M", "--time=3", sys.executable, HOME / "smoketest.py", "--cluster"]
    output = command(*words, "--results_dir", folder / "smoke", seconds=900)
    assert output.count("\nok ") == 3 and "all checks passed" in output
