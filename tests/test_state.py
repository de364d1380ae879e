"""States on disk are read as written, or rejected with one line."""

import itertools
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from builders import HALF_CHEETAH, full_disk, make
from safetensors import SafetensorError

from interreplay import CheckpointError
from interreplay.runs import state_files
from replay_buffers import PER, Uniform

ARRAYS = {
    "float32": np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32),
    "bool": np.array([True, False]),
    "uint64": np.array([2**64 - 1, 0], np.uint64),
    "empty": np.empty((0, 4), np.int32),
    "scalar": np.array(3.5),
    "turned": np.arange(12.0).reshape(3, 4).T,
    "strided": np.arange(20, dtype=np.int64)[::3],
    "large": np.arange(3_000_000, dtype=np.float64),
}
PLAIN = {
    "none": None,
    "flag": True,
    "text": 'ü "x"\n',
    "rng": np.random.default_rng(0).bit_generator.state,
    "list": [1, [2.5, "a"], {}],
    "float": 0.1,
    "infinite": float("inf"),
}


def run(program: str, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    root = str(Path(__file__).resolve().parents[1])
    environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": root}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def written(path: Path, value: object) -> Path:
    state_files.write_atomically(path, lambda folder: state_files.save(folder / "s", value))
    return path


def test_keys_of_dicts_are_plain_values_or_tuples(tmp_path):
    value = {(1, 2): [np.arange(3.0)], "text": 1, (np.int64(4), ("a", None)): {5: "b", None: (6,)}}
    state_files.save(tmp_path, value)
    found = state_files.load(tmp_path)
    assert list(found) == list(value) and found["text"] == 1
    np.testing.assert_array_equal(found[1, 2][0], np.arange(3.0))
    assert found[4, ("a", None)] == {5: "b", None: (6,)}


def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch):
    error = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    monkeypatch.setattr(state_files.arrays, "save_file", mock.Mock(side_effect=error))
    with pytest.raises(OSError, match="No space left on device") as caught:
        state_files.save(tmp_path, {"a": np.arange(3)})
    assert caught.value.errno == 28


def test_arrays(tmp_path):
    for kind in (np.asarray, torch.as_tensor):
        state_files.save(tmp_path, {name: [kind(array)] for name, array in ARRAYS.items()})
        for name, (found,) in state_files.load(tmp_path).items():
            expected = ARRAYS[name]
            assert isinstance(found, np.ndarray) and found.dtype == expected.dtype, name
            assert found.shape == expected.shape and np.array_equal(found, expected), name


def test_the_memory_format_is_kept(tmp_path):
    tensor = torch.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    state_files.save(tmp_path, {"a": tensor})
    found = torch.from_numpy(state_files.load(tmp_path)["a"])
    assert torch.equal(found, tensor) and found.stride() == tensor.stride()


def test_objects_are_rejected_on_writing(tmp_path):
    with pytest.raises((TypeError, ValueError)):
        state_files.save(tmp_path, {"value": np.array([object()])})
    with pytest.raises(TypeError):
        state_files.save(tmp_path, {"value": object()})


def test_pickles_are_rejected(tmp_path):
    state_files.save(tmp_path, {"a": np.arange(3)})
    np.save(tmp_path / state_files.ARRAYS, np.array([{"evil": 1}]), allow_pickle=True)
    (tmp_path / f"{state_files.ARRAYS}.npy").replace(tmp_path / state_files.ARRAYS)
    with pytest.raises(CheckpointError):
        state_files.load(tmp_path)


def test_inconsistent_headers_are_rejected(tmp_path):
    offsets = [{"data_offsets": wrong} for wrong in ([0, 10**12], [-8, 16], None)]
    for change in ({"dtype": "object"}, {"shape": [4]}, {"shape": [-3]}, *offsets):
        state_files.save(tmp_path, {"a": np.arange(3)})
        path = tmp_path / state_files.ARRAYS
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        text = json.dumps({"a": header["a"] | change}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
        with pytest.raises(CheckpointError, match="cannot be read"):
            state_files.load(tmp_path)


def test_containers_and_plain_values_keep_their_types(tmp_path):
    state = {"steps": {0: (1, [np.float32(0.1)]), 7: {"x": np.bool_(True)}}, "empty": (), "big": 2**100}
    state |= {"bytes": b"\x00a"} | PLAIN
    state_files.save(tmp_path, state)
    found = state_files.load(tmp_path)
    assert found == state and type(found["steps"][0][1][0]) is np.float32
    assert type(found["steps"][7]["x"]) is np.bool_
    assert state_files.load(tmp_path, "empty") == ()
    with pytest.raises(CheckpointError):
        state_files.load(tmp_path, "nothing")


def test_changing_loaded_arrays_does_not_change_the_files(tmp_path):
    path = written(tmp_path / "c", {"a": ARRAYS["large"]})
    state_files.load(path / "s")["a"][:] = 0
    state_files.resolve(path)
    assert np.array_equal(state_files.load(path / "s")["a"], ARRAYS["large"])


# -- damage ---------------------------------------------------------------------------------------


def files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and p.name != state_files.MANIFEST)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "longer"])
def test_damaged_files_are_reported(tmp_path, damage):
    for which in range(2):
        path = written(tmp_path / f"c{which}", {"a": np.arange(100), "b": torch.ones(50), "c": [np.zeros(3)], "d": 1})
        target = files(path)[which]
        content = bytearray(target.read_bytes())
        if damage == "flipped":
            content[len(content) // 2] ^= 4
        target.write_bytes({"truncated": content[:-1], "longer": content + b"x"}.get(damage, content))
        if damage == "missing":
            target.unlink()
        with pytest.raises(CheckpointError) as caught:
            state_files.resolve(path)
        message = str(caught.value)
        assert str(target) in message and "\n" not in message
        assert damage == "flipped" or f"expected {len(content)}" in message


def test_unreadable_manifests_and_missing_checkpoints_are_rejected(tmp_path):
    path = written(tmp_path / "c", {"a": 1})
    manifest = json.loads((path / state_files.MANIFEST).read_text())
    (path / state_files.MANIFEST).write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(CheckpointError, match="has the format 99, which this version cannot read; expected 2"):
        state_files.resolve(path)
    (path / state_files.MANIFEST).unlink()
    with pytest.raises(CheckpointError, match="is not a complete checkpoint"):
        state_files.resolve(path)
    for read in (state_files.resolve, state_files.load):
        with pytest.raises(CheckpointError):
            read(tmp_path / "none")


# -- atomic writes -------------------------------------------------------------------------------


def test_replacing_a_checkpoint_leaves_only_the_new_one(tmp_path):
    path = tmp_path / "c"
    for value in (1, 2):
        written(path, {"value": value})
    assert state_files.load(state_files.resolve(path) / "s") == {"value": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_failed_write_keeps_the_old_checkpoint(tmp_path):
    path = written(tmp_path / "c", {"value": 1})

    with pytest.raises(OSError, match="No space left"):
        state_files.write_atomically(path, lambda folder: full_disk(state_files.save(folder / "s", {"value": 2})))
    assert state_files.load(state_files.resolve(path) / "s") == {"value": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_folder_of_other_files_is_not_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter_1.tex").write_text("Once")
    (tmp_path / "file").write_text("here")
    for target in (tmp_path / "thesis", tmp_path / "file"):
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            state_files.write_atomically(target, lambda folder: (folder / "a").write_text("new"))
    assert (tmp_path / "thesis" / "chapter_1.tex").read_text() == "Once"
    (tmp_path / "empty").mkdir()
    state_files.write_atomically(tmp_path / "empty", lambda folder: (folder / "a").write_text("new"))
    assert (tmp_path / "empty" / "a").exists()


def test_a_kill_between_the_two_renames_keeps_the_old_checkpoint(tmp_path):
    path = written(tmp_path / "c", {"value": 1})
    path.rename(tmp_path / "c.old")
    assert state_files.load(state_files.resolve(path) / "s") == {"value": 1}
    written(path, {"value": 2})
    assert state_files.load(state_files.resolve(path) / "s") == {"value": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


KILLS = """
    import os, random, signal, sys, time
    import numpy as np
    from interreplay.runs import state_files as state

    def save_forever(path, number, pipe):
        while True:
            value = {"number": number, "rows": [np.full(40_000, number) for _ in range(4)]}
            state.write_atomically(path, lambda folder: state.save(folder / "s", value))
            os.write(pipe, number.to_bytes(4, "big"))
            number += 1

    rng, newest = random.Random(0), 0
    for _ in range(10):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            save_forever(sys.argv[1], newest + 1, writing)
        os.read(reading, 4)  # one is complete, the next has begun
        time.sleep(rng.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(writing)
        while number := os.read(reading, 4):
            newest = int.from_bytes(number, "big")
        found = state.load(state.resolve(sys.argv[1]) / "s")
        assert newest <= found["number"] <= newest + 2, "the last reported one, or the next"
        assert all((rows == found["number"]).all() for rows in found["rows"])
        newest = found["number"]
    print("survived")
"""


@pytest.mark.slow
def test_kill_9_at_any_moment_leaves_a_complete_checkpoint(tmp_path):
    assert run(KILLS, str(tmp_path / "c")).communicate()[0] == "survived\n"


# -- cost -----------------------------------------------------------------------------------------

PEAK = """
    import resource, sys
    import numpy as np, torch
    from interreplay import Transitions
    from interreplay.runs import state_files as state
    from replay_buffers import PER
    n, buffer = 50_000, PER(capacity=600_000)
    rows = np.random.default_rng(0).normal(size=(n + 1, 17)).astype(np.float32)
    none = np.zeros(n, bool)
    given = Transitions(rows[:-1], np.zeros((n, 6), np.float32), np.zeros(n, np.float32), rows[1:], none, none)
    for _ in range(12):
        buffer.add(given)
    saved = sys.argv[1]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    state.write_atomically(saved, lambda folder: state.save(folder / "s", buffer.state_view()))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) / 1024, buffer.storage.nbytes / 2**20)
"""


@pytest.mark.slow
def test_saving_makes_no_copy_in_memory(tmp_path):
    more, size = map(float, run(PEAK, str(tmp_path / "c")).communicate()[0].split())
    assert size > 60
    assert more < 12, "megabytes"


@pytest.mark.parametrize("kind", [Uniform, PER])
def test_saving_does_not_loop_over_rows(tmp_path, kind):
    def calls(rows: int) -> int:
        """Number of function calls while a buffer with `rows` rows is saved."""
        buffer, count = kind(capacity=20_000), itertools.count()
        for _ in range(rows // 100):
            buffer.add(make(100, **HALF_CHEETAH) if len(buffer) < 100 else buffer.storage[torch.arange(100)])
        sys.setprofile(lambda frame, event, argument: next(count) if event in ("call", "c_call") else None)
        try:
            state_files.write_atomically(tmp_path / "c", lambda at: state_files.save(at / "s", buffer.state_view()))
        finally:
            sys.setprofile(None)
        return next(count)

    few = calls(100)
    assert calls(20_000) < 2 * few < 20_000
