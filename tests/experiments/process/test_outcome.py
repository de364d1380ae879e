"""Exit codes, one-line errors, signals, output whose reader is gone, and the hang watch of a process."""

import faulthandler
import io
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interreplay.errors import CheckpointError, EnvironmentFailure, RunFailure, RunnerLost, UsageError
from interreplay.experiments.process import hang_watch, outcome
from interreplay.experiments.process.outcome import keep_output_open
from interreplay.experiments.process.signals import Interrupts, end_at_ctrl_c

INTERRUPTED = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:  # as libraries catch it
    pass
def main(words):
    return 0
"""
"""A module during whose import the user presses Ctrl-C."""

ROOT = Path(__file__).resolve().parents[3]


def test_an_error_is_one_line_and_an_exit_code(capsys):
    for error, code in (
        (UsageError("a\n  b"), 2),
        (CheckpointError("a b"), 2),
        (EnvironmentFailure("E-v0", "raised ValueError: a"), 1),
        (RunnerLost("a b"), 1),
        (RunFailure("a b"), 1),
    ):

        def act(error=error):
            raise error

        assert outcome.run(act, prog="prog") == code
        out, err = capsys.readouterr()
        assert out == "" and err == f"prog: error: {' '.join(str(error).split())}\n"


def test_exit_codes_of_a_command_and_of_ctrl_c(capsys):
    assert outcome.run(lambda: 7) == 7

    def act():
        raise KeyboardInterrupt

    assert outcome.run(act, "stopped", prog="prog") == 130
    assert capsys.readouterr().err == "prog: stopped\n"


def test_a_bug_keeps_its_traceback_and_the_streams_are_restored():
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError):
        outcome.run(lambda: 1 // 0)
    assert (sys.stdout, sys.stderr) == before


def test_a_closed_or_full_output_ends_nothing(monkeypatch, capfd):
    read, write = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    for stream in (os.fdopen(write, "w"), os.fdopen(full, "w"), None):
        monkeypatch.setattr(sys, "stdout", stream)
        with keep_output_open():
            for _ in range(3):
                print("a line", flush=True)
            assert sys.stdout.encoding and not sys.stdout.isatty()
        if stream is not None:
            stream.write("what Python writes when it exits")
            stream.close()
    assert capfd.readouterr().err == ""


def test_a_full_pipe_that_does_not_block_is_waited_for(monkeypatch):
    """Another program may have changed the mode of a terminal or pipe that they share."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    line = "a line\n" * 100_000
    with os.fdopen(read) as reader, ThreadPoolExecutor(1) as pool, os.fdopen(write, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        found = pool.submit(reader.read, len(line))
        with keep_output_open():
            print(line, end="", flush=True)
        assert found.result() == line


def test_a_notebook_shows_the_output(monkeypatch, tmp_path):
    """The descriptor of Jupyter's streams belongs to the terminal in which Jupyter was started."""
    with (tmp_path / "terminal").open("w") as terminal:
        stream = io.StringIO()
        monkeypatch.setattr(stream, "fileno", terminal.fileno, raising=False)
        monkeypatch.setattr(sys, "stdout", stream)
        with keep_output_open():
            print("a line")
    assert stream.getvalue() == "a line\n"


def test_characters_outside_of_the_encoding_are_replaced(monkeypatch, tmp_path):
    path = tmp_path / "log"
    with path.open("w", encoding="latin-1") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with keep_output_open():
            print("Müller, λ")
    assert path.read_bytes() == "Müller, ?\n".encode("latin-1")


@pytest.mark.slow
def test_a_closed_output_is_not_an_error():
    for pipe in ("| head -1", "| true", ">&-"):
        command = f"set -o pipefail; {sys.executable} -m interreplay --help {pipe}"
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop(number, capfd):
    before, calls = signal.getsignal(number), []
    with Interrupts(lambda: calls.append(1)) as interrupts:
        os.kill(os.getpid(), number)
        assert (interrupts.received, calls) == (number, [1])
    assert signal.getsignal(number) is before
    assert "Ctrl-C again" in capfd.readouterr().err


def test_a_second_ctrl_c_ends_at_once():
    with pytest.raises(KeyboardInterrupt), Interrupts(lambda: None):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_sigterm_changes_nothing(capfd):
    with Interrupts(lambda: None) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.received == signal.SIGINT
    assert capfd.readouterr().err.count("Ctrl-C") == 1


def test_ctrl_c_during_imports_ends_with_one_line(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "sys.argv = ['interreplay report']; from interreplay.experiments.commands import main;"
        "sys.exit(main._run('interrupted', []))"
    )
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interreplay report: stopped\n")


def test_handlers_of_others_remain_during_imports():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with end_at_ctrl_c():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with end_at_ctrl_c():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


SCRIPT = """
import ctypes, sys, time
from pathlib import Path
from interreplay.experiments.process import hang_watch

folder = Path(sys.argv[1])
hang_watch.GRACE = 1.0
count = 0

def hanging_function():
    ctypes.PyDLL(None).sleep(60)  # holds the global lock

with hang_watch.HangWatch(folder, 0.0, lambda: 1, print):
    time.sleep(0.2)  # 0 disables the watch
with hang_watch.HangWatch(folder, 2.0, lambda: count or None, lambda line: print(line, flush=True)):
    for count in range(1, 4):
        time.sleep(0.2)
    print("progress", flush=True)
    hanging_function()
"""


@pytest.mark.slow
def test_a_process_that_hangs_in_native_code_ends_and_records_its_stacks(tmp_path):
    """`test_run_edges.py` hangs in Python."""
    words = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (1, "progress\n")
    assert "hanging_function" in (tmp_path / "hung.txt").read_text()


def test_limits_before_and_after_the_first_progress(tmp_path, monkeypatch):
    class Ended(BaseException):
        pass

    def end(self, limit):
        raise Ended(limit)

    class Clock:
        now = 0.0

        def wait(self, seconds):
            Clock.now += seconds
            return Clock.now > 10_000

    timers = []
    monkeypatch.setattr(hang_watch.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(hang_watch.HangWatch, "_end", end)
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: timers.append(seconds))

    def limit_at(progress):
        Clock.now = 0.0
        watch = hang_watch.HangWatch(tmp_path, 100.0, progress)
        watch._over = Clock()
        watch._file = None
        try:
            watch._watch()
        except Ended as ended:
            return ended.args[0], Clock.now
        return None

    assert limit_at(lambda: int(Clock.now // 90)) is None
    assert limit_at(lambda: None) == (900.0, 905.0)  # the first step may take longer
    assert limit_at(lambda: None if Clock.now < 800 else 1) == (100.0, 905.0)
    assert limit_at(lambda: 1) == (100.0, 105.0)
    assert set(timers) == {110.0, 910.0}  # faulthandler's timer is always later than the thread
