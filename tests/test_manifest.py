"""What a manifest finds: every damaged file, itself included, and what was put into the folder later."""

from __future__ import annotations

import shutil
import zlib

import pytest

from interreplay.errors import CheckpointError
from interreplay.runs import state_files
from interreplay.runs.resume import first_settings, restore
from interreplay.runs.run_folder import RunFolder, read_settings
from interreplay.runs.state_files import manifest


def fill(folder):
    (folder / "deep").mkdir(parents=True)
    (folder / "weights").write_text("1 2 3")
    (folder / "deep" / "more").write_bytes(bytes(range(9)))


@pytest.fixture
def checkpoint(tmp_path):
    state_files.write_atomically(tmp_path / "c", fill)
    return tmp_path / "c"


def rewrite(checkpoint, change):
    """Writes the manifest again, its own checksum included, as somebody who means it would."""
    files = {name: list(entry) for name, entry in manifest.read(checkpoint).items()}
    change(files)
    manifest._write(checkpoint, files)


def test_no_bit_of_a_manifest_can_flip_unnoticed(checkpoint):
    path = checkpoint / manifest.MANIFEST
    content = path.read_bytes()
    for i in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[i // 8] ^= 1 << i % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError) as caught:
            state_files.resolve(checkpoint)
        assert "\n" not in str(caught.value)
    path.write_bytes(content)
    assert state_files.resolve(checkpoint) == checkpoint


@pytest.mark.parametrize(
    "content",
    ["[]", "null", "3", '{"format": 2, "filez": {}}', '{"format": 2, "files": []}', '{"format": 2, "files": null}']
    + ['{"format": 2, "files": {"weights": 5}}', '{"format": 2, "files": {"weights": [5]}}', "[" * 100_000]
    + ['{"format": 2, "files": {"weights": ["5", 1]}}', '{"format": 2, "files": {}, "more": 1}', "\xff\xfe"],
)
def test_a_manifest_of_another_shape_is_a_damaged_checkpoint(checkpoint, content):
    (checkpoint / manifest.MANIFEST).write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointError):
        state_files.resolve(checkpoint)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "deep/../../outside", "", "deep/.."])
def test_names_that_lead_out_of_the_folder(checkpoint, name):
    (checkpoint.parent / "outside").write_text("x")
    rewrite(checkpoint, lambda files: files.update({name: [1, zlib.crc32(b"x")]}))
    with pytest.raises(CheckpointError, match="expected the name of a file in the checkpoint"):
        state_files.resolve(checkpoint, trusted=True)


@pytest.mark.parametrize("name", ["state.msgpack", "deep/state.pkl", "settings.json", "deep/.x/../more.pkl"])
def test_files_that_nobody_listed(checkpoint, name):
    (checkpoint / "deep" / ".x").mkdir()
    (checkpoint / name).write_text("x")
    with pytest.raises(CheckpointError, match=r"is not listed in manifest\.json"):
        state_files.resolve(checkpoint)
    assert state_files.resolve(checkpoint, trusted=True) == checkpoint


def test_hidden_files_are_those_of_file_managers_and_network_disks(checkpoint):
    (checkpoint / ".nfs0001").write_text("x")
    (checkpoint / "deep" / ".DS_Store").write_text("x")
    assert state_files.resolve(checkpoint) == checkpoint


@pytest.mark.parametrize("name", ["deep/link", ".link"])
@pytest.mark.parametrize("target", ["elsewhere", "weights"])
def test_symbolic_links(checkpoint, name, target):
    (checkpoint.parent / "elsewhere").mkdir()
    outside = {"elsewhere": checkpoint.parent / "elsewhere", "weights": checkpoint / "weights"}
    (checkpoint / name).symlink_to(outside[target])
    with pytest.raises(CheckpointError, match="is a symbolic link"):
        state_files.resolve(checkpoint)
    linked = checkpoint.parent / "linked"
    linked.symlink_to(checkpoint)
    (checkpoint / name).unlink()
    assert state_files.resolve(linked) == linked, "the way to the folder may be one"


# -- settings -------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    folder = RunFolder.create(tmp_path, "run")
    write = lambda path: state_files.write_atomically(path, fill)
    settings = [{"env": "A-v0", "actor_lr": 0.001, "steps": steps} for steps in (1000, 2000)]
    older, newer = (folder.save(s["steps"], write, s, keep=2) for s in settings)
    return newer, older


def test_settings_are_part_of_the_checkpoint(two):
    for path in two:
        assert "settings.json" in manifest.read(path)
        assert state_files.resolve(path) == path


def test_no_bit_of_the_settings_can_flip_unnoticed(two):
    newer, older = two
    path = newer / "settings.json"
    content = path.read_bytes()
    for i in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[i // 8] ^= 1 << i % 8
        path.write_bytes(damaged)
        assert first_settings([newer, older])["steps"] == 1000


class Algorithm:
    """Restores whatever is whole."""

    def restore_from_path(self, path):
        state_files.resolve(path)


@pytest.mark.parametrize("name", ["settings.json", manifest.MANIFEST, "weights"])
@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_whatever_is_damaged_the_one_before_is_taken_and_the_reason_told(two, name, damage):
    newer, older = two
    content = bytearray((newer / name).read_bytes())
    content[len(content) // 2] ^= 1
    (newer / name).unlink() if damage == "missing" else (newer / name).write_bytes(content)
    said = []
    assert first_settings([newer, older])["env"] == "A-v0"
    assert restore(Algorithm(), [newer, older], said.append) == older
    assert said[0].startswith("checkpoint_00002000 is unusable (") and name in said[0]
    assert said[0].endswith("resuming from checkpoint_00001000")


def test_settings_that_are_no_settings(checkpoint):
    manifest.add(checkpoint, "settings.json", "[1]")
    with pytest.raises(CheckpointError, match="expected settings by name"):
        read_settings(checkpoint)


def test_a_manifest_taken_away_leaves_no_way_round(two):
    newer, older = two
    shutil.copytree(newer, newer.with_name("checkpoint_00003000"))
    bare = newer.with_name("checkpoint_00003000")
    (bare / manifest.MANIFEST).unlink()
    said = []
    (bare / "settings.json").write_text('{"steps": 1}')
    assert first_settings([bare, newer, older])["steps"] == 2000
    assert restore(Algorithm(), [bare, newer, older], said.append) == newer
