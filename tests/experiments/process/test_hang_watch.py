"""The hang watch ends a process without progress, and leaves others alone."""

import faulthandler
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.experiments.process import hang_watch

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import ctypes, sys, time
from pathlib import Path
from interreplay.experiments.process import hang_watch

folder, timeout, hang = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
hang_watch.GRACE = 1.0
count = 0

def hanging_function():
    if hang == "python":
        time.sleep(60)
    if hang == "native":
        ctypes.PyDLL(None).sleep(60)  # holds the global lock

with hang_watch.HangWatch(folder, timeout, lambda: count or None, lambda line: print(line, flush=True)):
    for count in range(1, 4):
        time.sleep(0.2)
    hanging_function()
print("finished")
"""


def run(folder, timeout, hang):
    words = [sys.executable, "-c", SCRIPT, str(folder), str(timeout), hang]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
@pytest.mark.parametrize("hang", ["python", "native"])
def test_a_process_without_progress_ends_and_records_its_stacks(tmp_path, hang):
    done = run(tmp_path, 2.0, hang)
    line = "hung: no progress for 2 s; the stacks are in hung.txt\n"
    assert (done.returncode, done.stdout) == (1, line if hang == "python" else "")
    assert "hanging_function" in (tmp_path / "hung.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("timeout", [30.0, 0.0])
def test_a_process_with_progress_is_not_stopped(tmp_path, timeout):
    done = run(tmp_path, timeout, "none")
    assert (done.returncode, done.stdout, done.stderr) == (0, "finished\n", "")
    assert not (tmp_path / "hung.txt").exists()


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
