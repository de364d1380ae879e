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
