"""What a study says of its runs, and of the time that is left."""

from __future__ import annotations

import pytest

from interreplay.studies import progress
from interreplay.studies.progress import StudyReporter


@pytest.fixture
def clock(monkeypatch):
    """Seconds, to be set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def carry_out(reporter, clock, name, seconds, steps, state="finished"):
    reporter.tell("start", name, {})
    clock[0] += seconds
    reporter.tell("result", name, {"env_steps": steps, "begun_at": 0})
    reporter.tell("end", name, {"env_steps": steps, "state": state})


def test_the_time_left_is_that_of_runs_that_differ_by_their_seed_alone(clock):
    said = []
    names = [f"SAC_Hopper-v5_{arm}_s{seed}" for seed in range(3) for arm in ("fast", "slow")]
    reporter = StudyReporter(dict.fromkeys(names, 1_000), 0, said.append)
    carry_out(reporter, clock, names[0], 10, 1_000)
    assert said[-1].endswith("10 s; about 50 s left"), "nothing is known of the slow ones yet"
    carry_out(reporter, clock, names[1], 90, 1_000)
    carry_out(reporter, clock, names[2], 10, 1_000)
    assert said[-1].startswith("[3/6] ") and said[-1].endswith("about 0:03 h left"), "90 + 10 + 90 s"
    carry_out(reporter, clock, names[3], 90, 1_000)
    carry_out(reporter, clock, names[4], 10, 1_000)
    assert said[-1].endswith("10 s; about 90 s left")
    carry_out(reporter, clock, names[5], 90, 1_000)
    assert said[-1].endswith(" 90 s")


def test_runs_side_by_side_share_the_time(clock):
    said = []
    names = [f"run_s{seed}" for seed in range(4)]
    reporter = StudyReporter(dict.fromkeys(names, 100), 2, said.append, every=10)
    for name in names[:2]:
        reporter.tell("start", name, {})
    clock[0] = 20.0
    for name in names[:2]:
        reporter.tell("result", name, {"env_steps": 50, "begun_at": 0})
    reporter.beat()
    assert said == ["[2/6] running: run_s0 50/100, run_s1 50/100; about 60 s left"]


def test_what_ended_early_or_failed_takes_no_more_time(clock):
    said = []
    reporter = StudyReporter({"a_s0": 1_000, "b_s0": 1_000, "c_s0": 1_000}, 0, said.append)
    carry_out(reporter, clock, "a_s0", 10, 100, "stopped early")
    assert said[-1].endswith("about 0:03 h left"), "200 s of two runs"
    reporter.tell("fail", "b_s0", {"reason": "no"})
    carry_out(reporter, clock, "c_s0", 50, 500, "")
    assert said[-1].startswith("[1/3] ") and said[-1].endswith("about 50 s left"), "it was interrupted"


def test_a_run_that_was_tried_again_counts_all_of_its_time(clock):
    said = []
    reporter = StudyReporter({"a_s0": 100, "a_s1": 100}, 0, said.append)
    reporter.tell("start", "a_s0", {})
    clock[0] = 30.0
    reporter.tell("result", "a_s0", {"env_steps": 50, "begun_at": 0})
    reporter.tell("retry", "a_s0", {"reason": "no"})
    carry_out(reporter, clock, "a_s0", 30, 100)
    assert said[-1].endswith(" 60 s; about 60 s left")
