"""Stores return the rows that were added, survive kills and full disks, and reject damaged files in one line."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import defaultdict
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from builders import make
from kept_rows import SPACES, episodes_of, equal, everything, fill, intact, save_buffer, writer_of

from interreplay import Offline
from interreplay.errors import InterreplayWarning, UsageError
from interreplay.experience.offline_data import open_rows
from interreplay.experience.store import ExperienceStore
from interreplay.experience.store import writer as writer_module
from interreplay.experience.store.header import HEADER
from interreplay.experience.store.segments import JOURNAL, RECORD_BYTES, column_file, segment_name
from interreplay.experiments.commands.experience import main
from interreplay.transitions import cat

pytestmark = pytest.mark.usefixtures("own_cache")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("chunk", [1, 4, 50])
def test_rows_come_back_as_they_were_added(tmp_path, chunk):
    rows = episodes_of([5, 20, 1, 9])
    folder = fill(tmp_path / "s", rows, step=101, version=7, chunk=chunk)
    store = intact(folder)
    assert equal(everything(store), rows) and store.rows == 35
    assert store.column("step").tolist() == list(range(101, 136))
    assert store.column("version").tolist() == [7 + (i // chunk) * chunk for i in range(35)]
    assert (np.diff(store.column("time")) >= 0).all() and abs(time.time() - store.column("time")[-1]) < 60
    assert store.header.env == "Pendulum-v1" and store.header.action_space == SPACES[1]
    names = sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    assert all(name in (HEADER, JOURNAL) or name.endswith(".bin") for name in names)  # none is a pickle
    obs = np.fromfile(folder / "rows_000000000000" / "obs.bin", "<f4").reshape(-1, 3)
    assert np.array_equal(obs, rows.obs.numpy())


def test_episodes_are_summarized_as_by_a_plain_loop(tmp_path):
    rows = episodes_of([5, 20, 1, 9], ended=False)
    order = torch.randperm(35, generator=torch.Generator().manual_seed(0))
    order = order.sort().values[torch.argsort(rows.rewards)]  # episodes interleave
    rows = rows[order]
    found = ExperienceStore(fill(tmp_path / "s", rows)).episodes()
    expected = defaultdict(list)
    for episode, reward in zip(rows.episode.tolist(), rows.rewards.tolist(), strict=True):
        expected[episode].append(reward)
    assert found.ids.tolist() == list(expected)
    assert found.lengths.tolist() == [len(rewards) for rewards in expected.values()]
    assert found.returns.tolist() == pytest.approx([sum(rewards) for rewards in expected.values()], abs=1e-6)
    assert not found.ended.any() and "success" not in found
    writer = writer_of(tmp_path / "reported")
    writer.add(rows[:9], 1, 0)
    writer.commit()
    writer.reports_success = True
    writer.add(rows[9:], 10, 0)
    writer.close()
    assert ExperienceStore(str(tmp_path / "reported")).episodes().success.tolist() == [False] * 4


def test_damage_is_still_found_after_a_store_is_continued(tmp_path):
    rows = episodes_of([8, 8, 8])
    folder = fill(tmp_path / "experience", rows[:16])
    obs = column_file(folder / segment_name(0), "obs")
    damaged = bytearray(obs.read_bytes())
    damaged[-1] ^= 1  # in the last row
    obs.write_bytes(damaged)
    fill(folder, rows[16:], step=17)
    with pytest.raises(UsageError, match="is damaged at row 8 of 24"):
        ExperienceStore(folder).check()
    writer = writer_of(folder)
    assert writer.rewind(20) == 4
    writer.close()
    with pytest.raises(UsageError, match="is damaged at row 8 of 20"):
        ExperienceStore(folder).check()


def test_the_oldest_segments_are_dropped(tmp_path):
    rows = episodes_of([10] * 30)
    store = intact(fill(tmp_path / "s", rows, most_rows=100))
    assert 80 <= store.rows <= 100
    assert equal(everything(store), rows[300 - store.rows :])
    assert store.column("step").tolist() == list(range(301 - store.rows, 301))


def test_rows_after_a_step_are_moved_aside(tmp_path):
    rows = episodes_of([10] * 6)
    fill(tmp_path / "experience", rows, most_rows=160)  # segments of 20 rows
    writer = writer_of(tmp_path / "experience", most_rows=160)
    assert writer.rewind(33) == 27 and writer.rows == 33
    assert writer.rewind(33) == 0
    other = episodes_of([4], seed=9, first=50)
    writer.add(other, 34, 0)
    writer.close()
    store = intact(tmp_path / "experience")
    aside = intact(tmp_path / "experience_aside_00000033")
    assert equal(everything(aside), rows[33:]) and equal(everything(store)[:33], rows[:33])
    assert equal(everything(store)[33:], other)
    assert store.header.id != aside.header.id


def test_moving_a_few_rows_does_not_read_the_others(tmp_path):
    rows = episodes_of([100] * 200)
    folder = fill(tmp_path / "experience", rows, most_rows=40_000, chunk=1_000)  # segments of 5,000 rows
    writer = writer_of(folder)
    peaks = []
    for step in (19_900, 19_800):
        tracemalloc.start()
        assert writer.rewind(step) == 100
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    writer.close()
    # The table of interned strings (paths intern their parts) may grow by megabytes, but not twice in a row.
    assert min(peaks) < ExperienceStore(folder).nbytes / 2
    assert equal(everything(ExperienceStore(tmp_path / "experience_aside_00019900")), rows[19_900:])


def test_rows_of_a_running_episode_are_written_after_some_time(tmp_path):
    writer = writer_of(tmp_path / "s", seconds=0.05)
    writer.add(episodes_of([3], ended=False), 1, 0)
    deadline = time.monotonic() + 20
    while not (tmp_path / "s" / HEADER).exists() or not ExperienceStore(tmp_path / "s").rows:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ExperienceStore(tmp_path / "s").rows == 3
    writer.close()


def test_a_second_writer_does_not_record_into_the_same_store(tmp_path):
    first = writer_of(tmp_path / "s")
    lines = []
    second = writer_of(tmp_path / "s", notify=lines.append)
    second.add(episodes_of([3]), 1, 0)
    assert not second.recording and len(lines) == 1 and "another process records into it" in lines[0]
    first.add(episodes_of([3]), 1, 0)
    first.close()
    assert ExperienceStore(tmp_path / "s").rows == 3


@pytest.mark.parametrize(("code", "recorded"), [("ENOLCK", True), ("ENOSYS", True), ("EACCES", False)])
def test_rows_are_recorded_on_file_systems_without_locks(tmp_path, monkeypatch, code, recorded):
    def fails(lock):
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(writer_module.FileLock, "acquire", fails)
    lines: list[str] = []
    fill(tmp_path / "s", episodes_of([3]), notify=lines.append)
    assert len(lines) == 1 - recorded
    assert (tmp_path / "s" / HEADER).exists() == recorded


def test_other_rows_than_those_of_the_store_end_the_recording(tmp_path):
    fill(tmp_path / "s", episodes_of([3]))
    lines: list[str] = []
    rows = episodes_of([3])
    writer = writer_of(tmp_path / "s", notify=lines.append)
    writer.add(rows.replace(obs=rows.obs.double()), 4, 0)
    writer.close()
    assert len(lines) == 1 and "columns differ" in lines[0] and ExperienceStore(tmp_path / "s").rows == 3


def test_a_full_disk_ends_the_recording_with_one_line(tmp_path, monkeypatch):
    lines: list[str] = []
    rows = episodes_of([5] * 8)
    writer = writer_of(tmp_path / "s", notify=lines.append)
    for start in range(0, 20, 5):
        writer.add(rows[start : start + 5], start + 1, 0)
    written = writer_module._write_all

    def full(file, data):
        file.write(data[: len(data) // 2])  # a part fits
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer_module, "_write_all", full)
    for start in range(20, 40, 5):
        writer.add(rows[start : start + 5], start + 1, 0)
    writer.close()
    assert len(lines) == 1 and lines[0].endswith("No space left on device")
    assert equal(everything(intact(tmp_path / "s")), rows[:20])
    monkeypatch.setattr(writer_module, "_write_all", written)
    fill(tmp_path / "s", rows[20:], step=21)  # partially written rows are cut off
    assert equal(everything(intact(tmp_path / "s")), rows)


WRITERS = """
import os, sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from kept_rows import episodes_of, writer_of
rows = episodes_of([20] * 1000)

def tell(what):
    os.write(1, f"{{what}}\\n".encode())  # a whole line or nothing

for line in sys.stdin:
    child = os.fork()
    if child:
        tell(child)
        os.waitpid(child, 0)
        tell("over")
        continue
    writer = writer_of(Path(line.strip()), most_rows=50_000)
    for start in range(20_000):
        writer.add(rows[start : start + 1], start + 1, start)
        tell(start + 1)
        if start % 20 == 19:
            time.sleep(0.001)
"""
"""Program whose child processes write a store each and print each row after adding it."""


@pytest.mark.slow
def test_a_process_killed_at_random_moments_loses_at_most_the_running_episode(tmp_path):
    rng = random.Random(0)
    rows = episodes_of([20] * 1000)
    lost = []
    words = [sys.executable, "-c", WRITERS.format(path=[str(ROOT), str(ROOT / "tests")])]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
    for number in range(4):
        folder = tmp_path / f"k{number}"
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        added = 0
        target = rng.randrange(1, 3_000)
        while added < target:
            added = int(process.stdout.readline())
        os.kill(child, signal.SIGKILL)
        while (line := process.stdout.readline().strip()) != "over":
            added = max(added, int(line))
        store = intact(folder)
        assert equal(everything(store), rows[: store.rows])
        lost.append(added - store.rows)
        fill(folder, rows[store.rows : store.rows + 20], step=store.rows + 1)  # another process continues it
        assert equal(everything(intact(folder)), rows[: store.rows + 20])
    process.communicate()
    assert max(lost) <= 20 and max(lost) > 0, lost


def changed(folder, **values):
    header = json.loads((folder / HEADER).read_text())
    (folder / HEADER).write_text(json.dumps(header | values))


def test_damaged_and_malicious_stores_are_rejected_in_one_line(tmp_path):
    whole = fill(tmp_path / "whole", episodes_of([10, 10]))
    segment = "rows_000000000000"
    columns = json.loads((whole / HEADER).read_text())["columns"]

    cases = [
        (lambda f: os.truncate(column_file(f / segment, "obs"), 100), "is truncated: .*obs.bin has 100 bytes of 240"),
        (lambda f: column_file(f / segment, "rewards").unlink(), "is truncated: .*rewards.bin has 0 bytes of 80"),
        (lambda f: column_file(f / segment, "obs").write_bytes(b"\x01" * 240), "is damaged at row 0 of 20"),
        (lambda f: (f / HEADER).write_text("{"), "damaged store.json"),
        (lambda f: (f / HEADER).write_text("[" * 100_000), "damaged store.json"),
        (lambda f: changed(f, format=99), "it has the format 99; expected 1"),
        (lambda f: changed(f, columns=columns | {"../../x": [[], "F32"]}), "unknown column '../../x'"),
        (lambda f: changed(f, columns=columns | {"obs": [[10**12], "F32"]}), "the column obs has the shape"),
        (lambda f: changed(f, columns=columns | {"obs": [[2**29, 2], "F32"]}), "rows of"),
        (lambda f: changed(f, columns=columns | {"obs": [[3], "object"]}), "the column obs has the type 'object'"),
        (lambda f: changed(f, columns={"obs": [[3], "F32"]}), "lacks the column actions"),
        (lambda f: changed(f, observation_space={"kind": "__import__"}), "is not a valid space"),
        (lambda f: linked(f / segment, tmp_path / "elsewhere"), "contains links"),
    ]
    for number, (damage, expected) in enumerate(cases):
        folder = tmp_path / f"damaged{number}"
        shutil.copytree(whole, folder)
        damage(folder)
        with pytest.raises(UsageError, match=expected) as caught:
            open_rows(str(folder), SPACES)
        assert "\n" not in str(caught.value)


def linked(segment, elsewhere):
    segment.rename(elsewhere)
    segment.symlink_to(elsewhere)


def test_a_torn_record_of_the_journal_is_dropped(tmp_path):
    folder = fill(tmp_path / "s", episodes_of([10, 10]))
    journal = folder / "rows_000000000000" / JOURNAL
    assert journal.stat().st_size == 2 * RECORD_BYTES
    os.truncate(journal, 2 * RECORD_BYTES - 5)
    assert equal(everything(ExperienceStore(folder)), episodes_of([10, 10])[:10])
    journal.write_bytes(journal.read_bytes()[:RECORD_BYTES] + b"\x07" * RECORD_BYTES)
    assert ExperienceStore(folder).rows == 10


def test_rows_that_a_power_failure_left_incomplete_are_left_out(tmp_path):
    rows = episodes_of([10] * 5)
    folder = fill(tmp_path / "s", rows[:30], most_rows=160)  # segments of 20 rows
    os.truncate(column_file(folder / segment_name(20), "obs"), 100)
    os.truncate(column_file(folder / segment_name(0), "rewards"), 70)
    for read in (ExperienceStore, writer_of):
        with (
            pytest.warns(InterreplayWarning, match="rewards.bin has 70 bytes of 80"),
            pytest.warns(InterreplayWarning, match="obs.bin has 100 bytes of 120; .* 10 rows remain"),
        ):
            left = read(folder)
        assert left.rows == 10
    left.add(rows[30:], 11, 0)
    left.close()
    assert equal(everything(intact(folder)), cat([rows[:10], rows[30:]]))


def test_columns_reach_the_disk_before_the_journal(tmp_path, monkeypatch):
    synced = []
    writer = writer_of(tmp_path / "s", seconds=3600.0)
    writer.add(episodes_of([3]), 1, 0)
    monkeypatch.setattr(writer_module.os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    writer.commit(durable=True)
    journal = tmp_path / "s" / segment_name(0) / JOURNAL
    assert sorted(synced) == sorted(path.stat().st_ino for path in journal.parent.iterdir())
    assert synced[-1] == journal.stat().st_ino
    writer.close()


def test_files_that_are_closed_while_they_are_synced_do_not_end_the_recording(tmp_path, monkeypatch):
    writer = writer_of(tmp_path / "s")

    def sync(handle):
        if close:
            writer._close_files()
        raise OSError(errno.EBADF, "bad file descriptor")

    monkeypatch.setattr(writer_module.os, "fsync", sync)
    for close in (True, False):
        writer._files = {"rewards": (tmp_path / "rewards").open("wb")}
        writer._call_guarded(writer._sync)
        assert writer.recording == close


def test_a_store_is_learned_from_as_a_buffer_with_its_rows(tmp_path):
    rows = episodes_of([10, 20, 5], ended=False)
    folder = fill(tmp_path / "s", rows)
    save_buffer(tmp_path / "state", rows)
    ours, theirs = open_rows(str(folder), SPACES), open_rows(str(tmp_path / "state"), SPACES)
    slots = torch.arange(35)
    assert equal(ours[slots].replace(extras={}), theirs[slots]) and ours[slots].truncated.sum() == 3
    assert torch.equal(ours.successor(slots), theirs.successor(slots))


def test_the_list_and_the_plot_leave_out_unfinished_episodes(tmp_path, monkeypatch, capsys):
    figures = pytest.importorskip("matplotlib.figure")
    monkeypatch.chdir(tmp_path)
    rows = episodes_of([4, 4, 4])
    rewards = torch.tensor([1.0, 2.0, 3.0]).repeat_interleave(4)
    rows = rows.replace(rewards=rewards, extras={"success": torch.arange(12) == 7})
    fill(Path("cut"), rows[:10])  # returns 4, 8 and a part of 12
    drawn = []
    monkeypatch.setattr(figures.Figure, "savefig", lambda figure, *_, **__: drawn.extend(figure.axes[0].lines))
    assert main(["cut", "--plot", "returns.png"]) == 0
    head, line, _ = capsys.readouterr().out.splitlines()
    assert head.split()[3:5] == ["episodes", "unfinished"]
    assert line.split() == ["cut", "Pendulum-v1", "10", "2", "1", "4.0", "6.0", "8.0", "50%", "0.0", "MB"]
    assert [line.get_ydata().tolist() for line in drawn] == [[4.0, 8.0]]
    fill(Path("whole"), rows)
    assert main(["whole"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert "unfinished" not in head and line.split()[2:6] == ["12", "3", "4.0", "8.0"]
    fill(Path("short"), rows[8:10])
    assert main(["short"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["short", "Pendulum-v1", "2", "0", "1", "0.0", "MB"]


def test_observations_with_parts_come_back_and_serve_hindsight(tmp_path):
    shapes = {"observation": (4,), "achieved_goal": (2,), "desired_goal": (2,)}
    rows = make(20, obs_shape=shapes, action_shape=(1,), ends=0.1)
    rows = rows.replace(actions=rows.actions.clamp(-1, 1))
    boxes = {name: gym.spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in shapes.items()}
    spaces = (gym.spaces.Dict(boxes), SPACES[1])
    store = ExperienceStore(fill(tmp_path / "s", rows, env="Goals-v0", spaces=spaces))
    assert equal(everything(store).replace(extras={}), rows) and store.header.observation_space == spaces[0]
    source = Offline(str(tmp_path / "s"), "HER", {"k": 4, "compute_reward": distance}, spaces=spaces, seed=0)
    drawn = source.sample(500).transitions
    goals = drawn.obs["desired_goal"]
    relabeled = (goals[:, None] == rows.next_obs["achieved_goal"][None]).all(2).any(1)
    assert 0.7 < relabeled.float().mean() < 0.9  # four of five
    expected = distance(drawn.next_obs["achieved_goal"].numpy(), goals.numpy(), {})
    assert drawn.rewards[relabeled].numpy() == pytest.approx(expected[relabeled.numpy()])


def distance(achieved, desired, info):
    return -np.linalg.norm(achieved - desired, axis=-1)


@pytest.mark.parametrize("most_rows", [0, 1e3])
def test_an_invalid_number_of_rows_is_rejected(tmp_path, most_rows):
    with pytest.raises(ValueError, match=f"most_rows is {most_rows}; expected an integer of 1 or more"):
        writer_of(tmp_path / "s", most_rows=most_rows)
