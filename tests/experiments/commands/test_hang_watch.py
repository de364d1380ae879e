"""The watch that ends a process in which nothing moves: when it does, and when it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys, time
from pathlib import Path
from interreplay.experiments.process import hang_watch

folder, timeout, start, moves = Path(sys.argv[1]), *map(float, sys.argv[2:])
hang_watch.START_PATIENCE = start
count = 0

def where_it_stands():
    time.sleep(60)

with hang_watch.HangWatch(folder, timeout, lambda: count or None, lambda line: print(line, flush=True)):
    for count in range(int(moves) + 1):
        time.sleep(0.2)
    if count == 3:
        where_it_stands()
print("went on")
"""


def run(tmp_path, timeout, start, moves):
    words = [sys.executable, "-c", SCRIPT, *map(str, (tmp_path, timeout, start, moves))]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
def test_what_does_not_move_any_more_ends_with_where_it_stood(tmp_path):
    done = run(tmp_path, timeout=4.0, start=600, moves=3)
    assert (done.returncode, done.stdout) == (1, "hung: no env step for 4 s; hung.txt says where\n")
    assert "where_it_stands" in (tmp_path / "hung.txt").read_text()


@pytest.mark.slow
def test_what_never_moves_is_given_more_time_and_ends_then(tmp_path):
    done = run(tmp_path / "gone", timeout=0.5, start=60.0, moves=0)
    assert done.returncode == 0 and done.stdout == "went on\n"


@pytest.mark.parametrize("timeout", [30.0, 0.0])
def test_what_moves_is_left_alone(tmp_path, timeout):
    done = run(tmp_path, timeout, start=0, moves=2)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")
    assert not (tmp_path / "hung.txt").exists()


def test_signs_of_life_and_their_limits(tmp_path, monkeypatch):
    from interreplay.experiments.process import hang_watch

    class Ended(BaseException):
        pass

    def end(self, limit):
        raise Ended(limit)

    class Clock:
        now = 0.0

        def wait(self, seconds):
            Clock.now += seconds
            return Clock.now > 10_000

    monkeypatch.setattr(hang_watch.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(hang_watch.HangWatch, "_end", end)

    def limit_at(pulse):
        Clock.now = 0.0
        watch = hang_watch.HangWatch(tmp_path, 100.0, pulse)
        watch._over = Clock()
        try:
            watch._watch()
        except Ended as ended:
            return ended.args[0], Clock.now
        return None

    assert limit_at(lambda: int(Clock.now // 90)) is None
    assert limit_at(lambda: None) == (900.0, 905.0)  # the first step may take longer
    assert limit_at(lambda: None if Clock.now < 800 else 1) == (100.0, 905.0)
    assert limit_at(lambda: 1) == (100.0, 105.0)
