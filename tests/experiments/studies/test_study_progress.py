"""Reports about the runs of a study, and the time left."""

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
    reporter.on_event("start", name, {})
    clock[0] += seconds
    reporter.on_event("result", name, {"env_steps": steps, "begun_at": 0})
    reporter.on_event("end", name, {"env_steps": steps, "state": state})


def test_the_time_left_uses_runs_that_differ_only_in_their_seeds(clock):
    output = io.StringIO()
    names = [f"SAC_Hopper-v5_{arm}_s{seed}" for seed in range(3) for arm in ("fast", "slow")]
    reporter = StudyReporter(dict.fromkeys(names, 1_000), 0, output)
    carry_out(reporter, clock, names[0], 10, 1_000)
    assert last(output).endswith("10 s; about 50 s left"), "the slow runs are unknown"
    carry_out(reporter, clock, names[1], 90, 1_000)
    carry_out(reporter, clock, names[2], 10, 1_000)
    assert last(output).startswith("[3/6] ") and last(output).endswith("about 3 min left"), "90 + 10 + 90 s"
    carry_out(reporter, clock, names[3], 90, 1_000)
    carry_out(reporter, clock, names[4], 10, 1_000)
    assert last(output).endswith("10 s; about 90 s left")
    carry_out(reporter, clock, names[5], 90, 1_000)
    assert last(output).endswith(" 90 s")


def test_runs_side_by_side_share_the_time(clock):
    output = io.StringIO()
    names = [f"run_s{seed}" for seed in range(4)]
    reporter = StudyReporter(dict.fromkeys(names, 100), 2, output, every=10)
    for name in names[:2]:
        reporter.on_event("start", name, {})
    clock[0] = 20.0
    for name in names[:2]:
        reporter.on_event("result", name, {"env_steps": 50, "begun_at": 0})
    reporter.beat()
    assert lines(output) == ["[2/6] running: run_s0 50/100, run_s1 50/100; about 60 s left"]


def test_stopped_and_failed_runs_take_no_more_time(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000, "b_s0": 1_000, "c_s0": 1_000}, 0, output)
    carry_out(reporter, clock, "a_s0", 10, 100, "stopped early")
    assert last(output).endswith("about 3 min left"), "200 s of two runs"
    reporter.on_event("fail", "b_s0", {"reason": "no"})
    carry_out(reporter, clock, "c_s0", 50, 500, "")
    assert last(output).startswith("[1/3] ") and last(output).endswith("about 50 s left"), "it was interrupted"


def test_a_retried_run_counts_all_of_its_time(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 100, "a_s1": 100}, 0, output)
    reporter.on_event("start", "a_s0", {})
    clock[0] = 30.0
    reporter.on_event("result", "a_s0", {"env_steps": 50, "begun_at": 0})
    reporter.on_event("retry", "a_s0", {"reason": "no"})
    carry_out(reporter, clock, "a_s0", 30, 100)
    assert last(output).endswith(" 60 s; about 60 s left")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_all_steps_in_a_bar_below_the_events(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output = Terminal()
    reporter = StudyReporter({"a_s0": 1_000, "a_s1": 1_000}, 0, output)
    reporter.on_event("start", "a_s0", {})
    clock[0] = 300.0
    reporter.on_event("result", "a_s0", {"env_steps": 500, "begun_at": 0})
    reporter.beat()
    assert "500/2,000" in last(output) and "15 min left" in last(output)
    carry_out(reporter, clock, "a_s1", 600, 1_000)
    reporter.on_event("fail", "a_s0", {"reason": "no"})
    reporter.close()
    assert "[1/2] a_s1: \x1b[32mfinished\x1b[0m at 1,000 steps" in output.getvalue()
    assert "\x1b[31ma_s0: failed for good: no\x1b[0m\n" in output.getvalue()


def test_the_reason_of_an_early_stop_is_reported(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000}, 0, output)
    reporter.on_event("start", "a_s0", {})
    reporter.on_event("end", "a_s0", {"env_steps": 500, "state": "finished", "reason": "evaluation return 9.0 reached"})
    assert last(output).startswith("[1/1] a_s0: finished (evaluation return 9.0 reached) at 500 steps, ")
