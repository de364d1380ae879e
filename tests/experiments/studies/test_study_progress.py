"""What a study says of its runs, and of the time that is left."""

from __future__ import annotations

import io

import pytest

from interreplay.experiments.studies import progress
from interreplay.experiments.studies.progress import StudyReporter


@pytest.fixture
def clock(monkeypatch):
    """Seconds, to be set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def lines(stream):
    return stream.getvalue().splitlines()


def last(stream):
    return lines(stream)[-1]


def carry_out(reporter, clock, name, seconds, steps, state="finished"):
    reporter.tell("start", name, {})
    clock[0] += seconds
    reporter.tell("result", name, {"env_steps": steps, "begun_at": 0})
    reporter.tell("end", name, {"env_steps": steps, "state": state})


def test_the_time_left_is_that_of_runs_that_differ_by_their_seed_alone(clock):
    said = io.StringIO()
    names = [f"SAC_Hopper-v5_{arm}_s{seed}" for seed in range(3) for arm in ("fast", "slow")]
    reporter = StudyReporter(dict.fromkeys(names, 1_000), 0, said)
    carry_out(reporter, clock, names[0], 10, 1_000)
    assert last(said).endswith("10 s; about 50 s left"), "nothing is known of the slow ones yet"
    carry_out(reporter, clock, names[1], 90, 1_000)
    carry_out(reporter, clock, names[2], 10, 1_000)
    assert last(said).startswith("[3/6] ") and last(said).endswith("about 3 min left"), "90 + 10 + 90 s"
    carry_out(reporter, clock, names[3], 90, 1_000)
    carry_out(reporter, clock, names[4], 10, 1_000)
    assert last(said).endswith("10 s; about 90 s left")
    carry_out(reporter, clock, names[5], 90, 1_000)
    assert last(said).endswith(" 90 s")


def test_runs_side_by_side_share_the_time(clock):
    said = io.StringIO()
    names = [f"run_s{seed}" for seed in range(4)]
    reporter = StudyReporter(dict.fromkeys(names, 100), 2, said, every=10)
    for name in names[:2]:
        reporter.tell("start", name, {})
    clock[0] = 20.0
    for name in names[:2]:
        reporter.tell("result", name, {"env_steps": 50, "begun_at": 0})
    reporter.beat()
    assert lines(said) == ["[2/6] running: run_s0 50/100, run_s1 50/100; about 60 s left"]


def test_what_ended_early_or_failed_takes_no_more_time(clock):
    said = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000, "b_s0": 1_000, "c_s0": 1_000}, 0, said)
    carry_out(reporter, clock, "a_s0", 10, 100, "stopped early")
    assert last(said).endswith("about 3 min left"), "200 s of two runs"
    reporter.tell("fail", "b_s0", {"reason": "no"})
    carry_out(reporter, clock, "c_s0", 50, 500, "")
    assert last(said).startswith("[1/3] ") and last(said).endswith("about 50 s left"), "it was interrupted"


def test_a_run_that_was_tried_again_counts_all_of_its_time(clock):
    said = io.StringIO()
    reporter = StudyReporter({"a_s0": 100, "a_s1": 100}, 0, said)
    reporter.tell("start", "a_s0", {})
    clock[0] = 30.0
    reporter.tell("result", "a_s0", {"env_steps": 50, "begun_at": 0})
    reporter.tell("retry", "a_s0", {"reason": "no"})
    carry_out(reporter, clock, "a_s0", 30, 100)
    assert last(said).endswith(" 60 s; about 60 s left")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_all_steps_in_a_bar_below_the_events(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    said = Terminal()
    reporter = StudyReporter({"a_s0": 1_000, "a_s1": 1_000}, 0, said)
    reporter.tell("start", "a_s0", {})
    clock[0] = 300.0
    reporter.tell("result", "a_s0", {"env_steps": 500, "begun_at": 0})
    reporter.beat()
    assert "500/2,000" in last(said) and "15 min left" in last(said)
    carry_out(reporter, clock, "a_s1", 600, 1_000)
    reporter.tell("fail", "a_s0", {"reason": "no"})
    reporter.close()
    assert "[1/2] a_s1: \x1b[32mfinished\x1b[0m at 1,000 steps" in said.getvalue()
    assert "\x1b[31ma_s0: failed for good: no\x1b[0m\n" in said.getvalue()


def test_the_reason_why_a_run_ended_early_is_part_of_its_line(clock):
    said = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000}, 0, said)
    reporter.tell("start", "a_s0", {})
    reporter.tell("end", "a_s0", {"env_steps": 500, "state": "finished", "reason": "evaluation return 9.0 reached"})
    assert last(said).startswith("[1/1] a_s0: finished (evaluation return 9.0 reached) at 500 steps, ")
