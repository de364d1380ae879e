"""Reports about the runs of a study, and the time left."""

import io
import math

import pytest

from interreplay.experiments.process import progress
from interreplay.experiments.process.progress import StudyReporter


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by a settable one, in seconds."""
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
    reporter.on_event("result", name, {"env_steps": steps})
    reporter.on_event("end", name, {"env_steps": steps, "state": state})


def test_the_time_left_is_at_the_mean_rate_of_all_runs(clock):
    output = io.StringIO()
    names = [f"run_s{seed}" for seed in range(4)]
    reporter = StudyReporter(dict.fromkeys(names, 100), {}, 2, output, every=10)
    for name in names[:2]:
        reporter.on_event("start", name, {})
    clock[0] = 20.0
    for name in names[:2]:
        reporter.on_event("result", name, {"env_steps": 50})
    reporter.beat()
    assert lines(output) == ["[2/6] running: run_s0 50/100, run_s1 50/100; about 60 s left"]
    reporter.on_event("fail", names[2], {"reason": "no"})
    carry_out(reporter, clock, names[3], 10, 40, "stopped early")
    reporter.beat()
    assert last(output) == "[3/6] running: run_s0 50/100, run_s1 50/100; about 21 s left", "100 steps at 140 per 30 s"


def test_resumed_runs_begin_at_their_checkpoints(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000, "a_s1": 1_000}, {"a_s0": 800}, 0, output, every=10)
    reporter.on_event("start", "a_s0", {})
    clock[0] = 10.0
    reporter.beat()
    reporter.on_event("result", "a_s0", {"env_steps": 900})
    clock[0] = 20.0
    reporter.beat()
    assert lines(output) == ["[0/2] running: a_s0 800/1,000", "[0/2] running: a_s0 900/1,000; about 4 min left"], (
        "1,100 steps at 100 per 20 s"
    )


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_all_steps_in_a_bar_below_the_events(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output = Terminal()
    reporter = StudyReporter({"a_s0": 1_000, "a_s1": 1_000}, {"a_s0": 200}, 0, output)
    reporter.beat()
    assert "200/2,000" in output.getvalue()
    reporter.on_event("start", "a_s0", {})
    clock[0] = 300.0
    reporter.on_event("result", "a_s0", {"env_steps": 500})
    reporter.beat()
    assert "500/2,000" in output.getvalue() and "about 25 min left" in output.getvalue()
    carry_out(reporter, clock, "a_s1", 600, 1_000)
    reporter.on_event("fail", "a_s0", {"reason": "no"})
    reporter.close()
    assert "[1/2] a_s1: \x1b[32mfinished\x1b[0m at 1,000 steps" in output.getvalue()
    assert "\x1b[31ma_s0: failed for good: no\x1b[0m\n" in output.getvalue()


def test_the_reason_of_an_early_stop_and_the_newest_returns_are_reported(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000}, {}, 0, output)
    reporter.on_event("start", "a_s0", {})
    reporter.on_event("result", "a_s0", {"env_steps": 400, "return": 7.0, "evaluation_return": 9.0})
    newest = {"env_steps": 500, "return": 8.0, "evaluation_return": math.nan}  # without an evaluation
    reporter.on_event("result", "a_s0", newest)
    reporter.on_event("end", "a_s0", newest | {"state": "finished", "reason": "evaluation return 9.0 reached"})
    assert last(output) == (
        "[1/1] a_s0: finished (evaluation return 9.0 reached) at 500 steps, return 8.0, evaluation 9.0, 0 s"
    )


def test_runs_that_ended_without_finishing_do_not_count_for_the_time_left(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000, "a_s1": 1_000}, {}, 0, output, every=10)
    reporter.on_event("start", "a_s1", {})
    carry_out(reporter, clock, "a_s0", 10, 100, "failed")
    reporter.on_event("result", "a_s1", {"env_steps": 400})
    reporter.beat()
    assert last(output) == "[0/2] running: a_s1 400/1,000; about 12 s left", "600 steps at 500 per 10 s"


def test_a_run_that_resumes_just_before_a_result_is_no_estimate(clock):
    output = io.StringIO()
    reporter = StudyReporter({"a_s0": 1_000}, {"a_s0": 499}, 0, output, every=10)
    reporter.on_event("start", "a_s0", {})
    clock[0] = 20.0
    reporter.on_event("result", "a_s0", {"env_steps": 500})
    reporter.beat()
    assert last(output) == "[0/1] running: a_s0 500/1,000"
