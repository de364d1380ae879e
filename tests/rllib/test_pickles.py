"""Checkpoints from elsewhere cannot run anything when they are loaded."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import custom_training
from interreplay.errors import CheckpointError
from interreplay.rllib.checkpoints import safe_pickle

LINE = "--env Pendulum-v1 --total_env_steps 40 --steps_per_iteration 20 --learning_starts 20 --train_batch_size 8"
LINE += " --buffer_size 100 --hiddens 8 --evaluation_interval 0 --quiet"


class Evil:
    """Writes a file where it is loaded."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


def poisoned(checkpoint: Path, target: Path) -> None:
    """Puts code into a checkpoint's state and mends its manifest, as somebody else could."""
    import zlib

    name = "algorithm_state.pkl"
    path, manifest = checkpoint / name, json.loads((checkpoint / "manifest.json").read_text())
    path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()) | {"more": Evil(target)}))
    manifest["files"][name] = [path.stat().st_size, zlib.crc32(path.read_bytes())]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def test_a_poisoned_checkpoint_is_refused_unless_trusted(tmp_path, capsys):
    assert custom_training.main([*LINE.split(), "--local_dir", str(tmp_path / "r")]) == 0
    (run,) = (tmp_path / "r").iterdir()
    (checkpoint,) = run.glob("checkpoint_*")
    safe_pickle.check_states(checkpoint)
    poisoned(checkpoint, tmp_path / "ran")
    on = ["--resume", str(run), "--total_env_steps", "60", "--quiet"]
    capsys.readouterr()
    assert custom_training.main(on) == 2
    err = capsys.readouterr().err
    assert "names posix.system" in err and "--trust_checkpoint" in err and len(err.splitlines()) == 1
    assert not (tmp_path / "ran").exists()
    assert custom_training.main([*on, "--trust_checkpoint"]) == 0
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("classes", [True, False])
def test_pickles_that_name_code_are_refused(classes, tmp_path):
    path = tmp_path / "algorithm_state.pkl"
    for thing in (Evil(tmp_path / "ran"), eval, pickle.loads, pytest.raises):
        path.write_bytes(pickle.dumps({"a": thing}))
        with pytest.raises(CheckpointError, match="names "):
            safe_pickle.load(path) if classes else safe_pickle.check_states(tmp_path)
    # A way around: a module of ours that leads to another.
    path.write_bytes(b"cinterreplay.rllib.run.build\nos.system\n(S'touch x'\ntR.")
    with pytest.raises(CheckpointError, match=r"names interreplay.rllib.run.build.os.system"):
        safe_pickle.load(path)
    assert not (tmp_path / "ran").exists()
