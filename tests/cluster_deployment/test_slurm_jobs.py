"""Studies on a real Slurm: complete, side by side, interrupted and requeued, with a node that dies.

Jobs are submitted by fixtures and awaited by the tests, so that one test's jobs start, or wait in the queue, during
another's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from slurm_jobs import HOME, OVER, Job, assert_equal_weights, command, end_all, nodes, steps_of_curve, weights, why_not

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
STEPS = 600
CURVE = list(range(100, STEPS + 1, 100))

# In a step on the node: ends every process of Ray's there at once, as if the node's memory had run out.
KILL_DAEMONS = """
until [ -e "$WORD" ]; do sleep 0.1; done
pids=() names=()
for process in /proc/[0-9]*; do
    tr '\\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q -- "$FOLDER/n" || continue
    pids+=("${process#/proc/}") names+=("$(cat "$process/comm")")
done
kill -KILL "${pids[@]}" && echo "killed ${names[@]}"
"""


@pytest.fixture(scope="module")
def slurm():
    """Return the nodes of Slurm; skip if it does not answer."""
    if reason := why_not():
        pytest.skip(reason)
    return nodes()


@pytest.fixture
def two_nodes(slurm):
    if len(slurm) < 2:
        pytest.skip(f"two nodes are needed, there is {slurm}")
    return slurm


@pytest.fixture(scope="module")
def folder(slurm):
    """Return a folder that all nodes can access, like the repository."""
    path = HOME / "results" / f"slurm-tests-{os.getpid()}"
    path.mkdir(parents=True)
    yield path
    end_all()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def submitted(folder):
    """Submit an array of three runs, without interruptions."""
    return Job(folder / "array", "single", "--cpus 1 --mem 2500M", seeds=3, steps=STEPS, INTERREPLAY_STAGGER="0")


@pytest.fixture(scope="module")
def array(submitted):
    """Return the array after its end."""
    submitted.finish()
    return submitted


@pytest.fixture(scope="module")
def warned(array, slurm, folder):
    """Send warnings to a job and an array task after their second checkpoint; return them by suffix."""
    # A warning with less time left than is kept for saving: the job has to stop.
    env = {"INTERREPLAY_STAGGER": "0", "INTERREPLAY_STOP_BEFORE": "3600"}
    options = f"--cpus 1 --mem 2500M --sbatch=--nodelist={slurm[-1]}"
    jobs = {
        "": Job(folder / "warned", "concurrent", options, steps=STEPS, **env),
        "_0": Job(folder / "warned-task", "single", options, steps=STEPS, **env),
    }
    waiting = dict(jobs)
    while waiting:
        task, job = waiting.popitem()
        if job.saved_steps() < 200:
            assert not job.states() <= OVER, job.log()
            waiting = {task: job, **waiting}
            time.sleep(0.2)
        else:
            command("scancel", "--batch", f"--signal={signal.SIGUSR1.value}", job.id + task)
    return jobs


@pytest.fixture(scope="module")
def neighbors(warned, slurm, folder):
    """Cancel a long job after a short one on the same node; return the time and the previous states of both."""
    options = f"--cpus 1 --mem 2500M --sbatch=--nodelist={slurm[0]}"
    long = Job(folder / "long", "concurrent", options, steps=100_000)
    short = Job(folder / "short", "concurrent", options, steps=200)
    short.finish()
    steps = long.saved_steps()
    long.until(lambda: long.saved_steps() >= steps + 200, "continuing after the shorter job ended its Ray")
    found = [job.status() for job in (short, long)]
    command("scancel", long.id)
    return long, time.monotonic(), found


def test_the_smoke_test_finds_no_problem_inside_of_a_job(submitted, folder):
    words = ["srun", "--ntasks=1", "--mem=2500M", "--time=3", sys.executable, HOME / "smoketest.py", "--cluster"]
    output = command(*words, "--results_dir", folder / "smoke", seconds=150)
    assert output.count("\nok ") == 3 and "all checks passed" in output


def test_an_array_of_three(array):
    for seed in range(3):
        name = f"SAC_InvertedPendulum-v5_Uniform_s{seed}"
        status = array.status(name)
        assert (status["state"], status["env_steps"], status["starts"]) == ("finished", STEPS, 1)
        assert steps_of_curve(array.run(name)) == CURVE


def test_two_jobs_on_one_node(neighbors):
    assert [(status["failures"], status["starts"]) for status in neighbors[2]] == [([], 1)] * 2


def test_a_warned_job_is_requeued_and_ends_with_the_same_results(warned, array):
    for task, job in warned.items():
        job.finish()
        assert job.scheduler_state(task)["Restarts"] == "1"
        status = job.status()
        assert (status["state"], status["env_steps"], status["starts"]) == ("finished", STEPS, 2)
        assert 0 < status["begun_at"] < STEPS
        assert "warning of the scheduler" in job.log() and "requeueing" in job.log()
        assert steps_of_curve(job.run()) == CURVE
        assert_equal_weights(weights(array.run(), STEPS), weights(job.run(), STEPS))


def test_four_runs_on_two_nodes(two_nodes, folder, array):
    job = Job(
        folder / "four", "concurrent", "--nodes 2 --cpus 2 --mem 5000M", buffers="Uniform, NMER", seeds=2, steps=STEPS
    )
    job.finish()
    assert [(row["state"], row["env_steps"], row["starts"], row["failures"]) for row in job.rows()] == [
        ("finished", str(STEPS), "1", "0")
    ] * 4
    assert "2 of 2 nodes" in job.log() and "4 runs at a time" in job.log()
    hosts = {path.name.split(".")[4] for path in job.results.glob("*/events.out.*")}
    assert len(hosts) == 2
    assert_equal_weights(weights(array.run(), STEPS), weights(job.run(), STEPS))


def test_killed_daemons_of_a_node(two_nodes, folder, array):
    job = Job(folder / "killed", "concurrent", "--nodes 2 --cpus 1 --mem 3000M", seeds=2, steps=STEPS)
    names = [f"SAC_InvertedPendulum-v5_Uniform_s{seed}" for seed in range(2)]
    job.until(lambda: "nodes at" in job.log(), "the Ray cluster")
    worker = next(path for path in job.results.glob("slurm/ray-*/*.log") if "worker of" in path.read_text())
    rays = next(word.split("/n0")[0] for word in worker.read_text().split() if "/n0/session_" in word)
    word = folder / "now"
    step = ["srun", f"--jobid={job.id}", "--overlap", "-N1", "-n1", "-w", worker.stem]
    step += [f"--export=ALL,FOLDER={rays},WORD={word}", "bash", "-c", KILL_DAEMONS]
    with subprocess.Popen(step, stdout=subprocess.PIPE, text=True) as killer:
        victim = next_on(worker.stem, job, names)
        job.until(lambda: job.saved_steps(victim) >= 200, f"a checkpoint of {victim}")
        word.touch()
        killed = killer.communicate(timeout=60)[0]
    assert "raylet" in killed
    job.finish()
    rows = {row["name"]: row for row in job.rows()}
    assert [row["state"] for row in rows.values()] == ["finished"] * 2
    assert [rows[name]["starts"] for name in names] == ["2" if name == victim else "1" for name in names]
    assert rows[victim]["failures"] == "1" and rows[victim]["last_failure"]
    assert f"{victim}: failed, trying again from its last checkpoint" in job.log()
    assert job.status(victim)["begun_at"] >= 200
    for name in names:
        assert steps_of_curve(job.run(name)) == CURVE
        assert_equal_weights(weights(array.run(name), STEPS), weights(job.run(name), STEPS))


def next_on(node, job, names):
    """Return the run that is executed on a node, as soon as there is one."""
    found = []

    def look():
        found[:] = [name for name in names if any(job.run(name).glob(f"events.out.*.{node}*"))]
        return found

    job.until(look, f"a run on {node}")
    return found[0]


def test_a_canceled_job_is_not_requeued(neighbors):
    long, canceled, _ = neighbors
    long.finish(expected="CANCELLED")
    time.sleep(max(0, canceled + 8 - time.monotonic()))  # a requeued job would be back by then
    assert long.states() == {"CANCELLED"}, long.log()
