import contextlib
import fcntl
import io
import math
import os
import pty
import re
import struct
import termios
from types import SimpleNamespace
from unittest import mock

import pytest

from interreplay.errors import UsageError
from interreplay.experiments.process import outcome
from interreplay.experiments.process.progress import Reporter, duration, format_return


def make_reporter(total, steps, stream, quiet=False, warm_up=0, best=math.nan):
    """Return the reporter of a run with these settings."""
    settings = SimpleNamespace(total_env_steps=total, quiet=quiet, learning_starts=warm_up, updates=None)
    return Reporter(settings, steps, stream, best)


@pytest.fixture(autouse=True)
def _no_color(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def result(value, evaluation=None):
    parts = {"env_runners": {"episode_return_mean": value}}
    return parts | ({"evaluation": {"env_runners": {"episode_return_mean": evaluation}}} if evaluation else {})


def test_one_line_per_iteration_without_a_terminal():
    stream = io.StringIO()
    reporter = make_reporter(3000, 0, stream)
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
    """Replace the clock by a settable one, in seconds."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("interreplay.experiments.process.progress.time.monotonic", lambda: clock.seconds)
    return clock


def reported(reporter, now, steps, seconds):
    """Return the end of the line of an iteration."""
    now.seconds = seconds
    reporter.iteration(steps, result(1.0))
    return reporter._stream.getvalue().splitlines()[-1].partition("evaluation        -")[2]


def test_a_line_shows_the_time_left(now):
    reporter = make_reporter(10_000, 1_000, io.StringIO())
    assert reported(reporter, now, 4_000, 600.0) == "  20 min left"  # 3,000 steps took ten minutes
    assert reported(reporter, now, 7_000, 610.0) == "  5 min left"
    assert reported(reporter, now, 10_000, 620.0) == ""


def test_steps_without_updates_do_not_affect_the_time_left(now):
    reporter = make_reporter(10_000, 0, io.StringIO(), warm_up=2_000)
    assert reported(reporter, now, 1_000, 1.0) == ""
    assert reported(reporter, now, 2_000, 2.0) == ""
    assert reported(reporter, now, 4_000, 302.0) == "  15 min left"
    resumed = make_reporter(10_000, 4_000, io.StringIO(), warm_up=2_000)
    assert reported(resumed, now, 5_000, 402.0) == "  8 min left"


def test_a_bar_beyond_its_total(terminal):
    stream, written = terminal
    reporter = make_reporter(1_000, 990, stream)
    reporter.progress(1_002)
    reporter.iteration(1_002, result(1.0))
    reporter.note("a note")
    reporter.close()
    recovered = make_reporter(1_000, 1_200, stream)
    recovered.close()
    text = written()
    assert "1,002/1,002" in text and "1,200/1,200" in text and "a note\r\n" in text


@pytest.fixture
def terminal():
    """A terminal of 80 columns: a stream, and a function that returns what was written to it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    stream = os.fdopen(theirs, "w")

    def written():
        stream.close()
        chunks = []
        with contextlib.suppress(OSError):  # Linux raises this at the end
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        os.close(ours)
        return b"".join(chunks).decode()

    return stream, written


def lines_of(text):
    """Return the lines that remain on a terminal: text after a carriage return overwrites the line."""
    return [line.rstrip("\r").rpartition("\r")[2].removeprefix("\x1b[A") for line in text.split("\n")]


def test_a_terminal_of_80_columns_keeps_a_line_per_iteration_above_a_whole_bar(terminal, now):
    stream, written = terminal
    reporter = make_reporter(15_000_000, 0, stream)
    for number in range(1, 5):
        now.seconds = 600.0 * number
        reporter.iteration(1_000_000 * number, result(-12_345.6 * number, -11_234.5 * number))
    reporter.close()
    text = written()
    assert max(len(piece) for line in text.split("\n") for piece in line.split("\r")) <= 80
    history = [line for line in lines_of(text) if "evaluation" in line]
    assert [line.split()[0] for line in history] == ["1,000,000", "2,000,000", "3,000,000", "4,000,000"]
    assert history[1].split()[1:] == ["steps", "return", "-24,691.2", "evaluation", "-22,469.0"]
    assert re.search(r" 27%\|.*\| 4,000,000/15,000,000 \[\d\d:\d\d, .*step/s, 110 min left\]", text)


def test_the_best_evaluation_is_green_on_terminals_with_colors(terminal, monkeypatch):
    stream, written = terminal
    for no_color, term in (("", "xterm"), ("1", "xterm"), ("", "dumb")):
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", term)
        reporter = make_reporter(3_000, 0, stream, best=5.0)
        for steps, value in ((1_000, 4.0), (2_000, 6.0), (3_000, 3.0)):
            reporter.iteration(steps, result(1.0, value))
        reporter.close()
    assert re.findall(r"\x1b\[32m(.*?)\x1b\[0m", written()) == ["evaluation      6.0"]


def test_a_long_line_breaks_between_words_at_the_terminals_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    line = "configuration mujoco/tqc.yaml: --preset none --buffer_size 1000000 --train_batch_size 256"
    lines = outcome.wrap_line(line, Terminal()).splitlines()
    assert max(map(len, lines)) <= 40 and " ".join(part.strip() for part in lines) == line
    assert outcome.wrap_line(line, io.StringIO()) == line


def test_an_error_is_red_on_a_terminal(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream, written = terminal
    monkeypatch.setattr("sys.stderr", stream)

    assert outcome.run(mock.Mock(side_effect=UsageError("no")), prog="train") == 2
    assert written() == "\x1b[31mtrain: error: no\x1b[0m\r\n"


def test_quiet_prints_only_notes():
    for stream in (io.StringIO(), Terminal()):
        reporter = make_reporter(2000, 0, stream, quiet=True)
        reporter.progress(10)
        reporter.iteration(1000, result(1.0))
        assert stream.getvalue() == ""
        reporter.note("a note")
        assert stream.getvalue() == "a note\n"


def test_the_summary_counts_the_steps_of_this_process_only():
    reporter = make_reporter(2000, 1500, io.StringIO())
    reporter.start_time -= 10
    reporter.iteration(2000, result(3.0, 4.0))
    assert reporter.summary(2000, 9.0) == "2,000 steps, 10 s (50 steps/s), return 3.0, evaluation return 4.0 (best 9.0)"


def test_the_success_rate_is_shown_if_it_is_reported():
    stream = io.StringIO()
    reporter = make_reporter(3000, 0, stream)
    trained = result(-40.0)
    trained["env_runners"]["success_rate"] = 0.3
    reporter.iteration(1000, trained)
    evaluated = result(-20.0, -10.0)
    evaluated["env_runners"]["success_rate"] = 0.6
    evaluated["evaluation"]["env_runners"]["success_rate"] = 0.75
    reporter.iteration(2000, evaluated)
    reporter.iteration(2500, trained)  # without an evaluation
    lines = stream.getvalue().splitlines()
    assert "return    -40.0  evaluation        -  success 0.30  " in lines[0]
    assert "return    -20.0  evaluation    -10.0  success 0.75  " in lines[1]
    assert "return    -40.0  evaluation    -10.0  success 0.75  " in lines[2], "that of training includes exploration"
    assert reporter.summary(3000, -10.0).endswith("evaluation return -10.0 (best -10.0), success 0.75")


def test_durations_and_numbers_in_words():
    words = {40: "40 s", 119.6: "2 min", 540: "9 min", 7_100: "118 min", 7_200: "2 h", 9_000: "2.5 h"}
    words |= {18_000: "5 h", 172_000: "2 days", 1_652_400: "19 days"}
    for seconds, expected in words.items():
        assert duration(seconds) == expected
    assert [format_return(math.nan), format_return(-1234.56)] == ["-", "-1,234.6"]
