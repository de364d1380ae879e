from __future__ import annotations

import io
import math
from types import SimpleNamespace

import pytest

from interreplay.runs.progress import Clock, Reporter, shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


def result(value, evaluation=None):
    parts = {"env_runners": {"episode_return_mean": value}}
    return parts | ({"evaluation": {"env_runners": {"episode_return_mean": evaluation}}} if evaluation else {})


def test_one_line_per_iteration_where_there_is_no_terminal():
    stream = io.StringIO()
    reporter = Reporter(3000, 0, stream)
    for steps in range(1, 1001):
        reporter.progress(steps)
    reporter.iteration(1000, {"env_runners": {}})
    reporter.iteration(2000, result(12.34, 1234.5))
    reporter.iteration(3000, result(math.nan))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert "1,000 / 3,000 steps" in lines[0]
    assert "steps/s  return        -  evaluation        -" in lines[0]
    assert "return     12.3  evaluation  1,234.5" in lines[1]
    assert "return     12.3  evaluation  1,234.5" in lines[2]


@pytest.fixture
def now(monkeypatch):
    """A clock to be set, in seconds."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("interreplay.runs.progress.time.monotonic", lambda: clock.seconds)
    return clock


def reported(reporter, now, steps, seconds):
    """The end of the line of an iteration."""
    now.seconds = seconds
    reporter.iteration(steps, result(1.0))
    return reporter._stream.getvalue().splitlines()[-1].partition("evaluation        -")[2]


def test_a_line_says_how_long_the_rest_would_take(now):
    reporter = Reporter(10_000, 1_000, io.StringIO())
    assert reported(reporter, now, 4_000, 600.0) == "  0:20 h left"  # 3,000 steps took ten minutes
    assert reported(reporter, now, 7_000, 610.0) == "  0:05 h left"
    assert reported(reporter, now, 10_000, 620.0) == ""


def test_steps_without_an_update_say_nothing_of_the_time_left(now):
    reporter = Reporter(10_000, 0, io.StringIO(), warm_up=2_000)
    assert reported(reporter, now, 1_000, 1.0) == ""
    assert reported(reporter, now, 2_000, 2.0) == ""
    assert reported(reporter, now, 4_000, 302.0) == "  0:15 h left"
    resumed = Reporter(10_000, 4_000, io.StringIO(), warm_up=2_000)
    assert reported(resumed, now, 5_000, 402.0) == "  0:08 h left"


def test_a_run_of_a_study_says_so_from_its_second_report_on(monkeypatch):
    now = iter([0.0, 100.0])
    monkeypatch.setattr("interreplay.runs.progress.time.monotonic", lambda: next(now))
    clock = Clock(5_000)
    assert clock.left(4_000, 10_000) == ""  # random steps
    assert clock.left(5_000, 10_000) == ""  # resumed there
    assert clock.left(6_000, 10_000) == "  0:07 h left"


def test_a_bar_on_a_terminal():
    stream = Terminal()
    reporter = Reporter(2000, 500, stream)
    reporter.progress(600)
    reporter.iteration(1000, result(1.0, 2.0))
    reporter.note("a note")
    reporter.close()
    text = stream.getvalue()
    assert "1000/2000" in text
    assert "return 1.0, evaluation 2.0" in text
    assert "a note\n" in text


def test_quiet_says_only_notes():
    for stream in (io.StringIO(), Terminal()):
        reporter = Reporter(2000, 0, stream, quiet=True)
        reporter.progress(10)
        reporter.iteration(1000, result(1.0))
        assert stream.getvalue() == ""
        reporter.note("a note")
        assert stream.getvalue() == "a note\n"


def test_the_summary_counts_the_steps_of_this_process_only():
    reporter = Reporter(2000, 1500, io.StringIO())
    reporter.start_time -= 10
    reporter.iteration(2000, result(3.0, 4.0))
    assert reporter.summary(2000, 9.0) == "2,000 steps, 10 s (50 steps/s), return 3.0, evaluation return 4.0 (best 9.0)"


def test_the_success_rate_where_the_environment_has_one():
    stream = io.StringIO()
    reporter = Reporter(3000, 0, stream)
    trained = result(-40.0)
    trained["env_runners"]["success_rate"] = 0.3
    reporter.iteration(1000, trained)
    evaluated = result(-20.0, -10.0)
    evaluated["env_runners"]["success_rate"] = 0.6
    evaluated["evaluation"]["env_runners"]["success_rate"] = 0.75
    reporter.iteration(2000, evaluated)
    lines = stream.getvalue().splitlines()
    assert "return    -40.0  evaluation        -  success 0.30  " in lines[0]
    assert "return    -20.0  evaluation    -10.0  success 0.75  " in lines[1]
    assert reporter.summary(3000, -10.0).endswith("evaluation return -10.0 (best -10.0), success 0.75")
    bar = Terminal()
    reporter = Reporter(3000, 0, bar)
    reporter.iteration(2000, evaluated)
    reporter.close()
    assert "evaluation -10.0, success 0.75" in bar.getvalue()


def test_numbers():
    assert [shown(math.nan), shown(-1234.56)] == ["-", "-1,234.6"]
