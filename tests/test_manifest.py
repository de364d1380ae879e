"""A manifest detects every damaged file, including itself, and files that were added later."""

import errno
import os
import re
import stat
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


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_folders_that_cannot_be_synced_are_skipped(tmp_path, monkeypatch, code):
    def refused(kind):
        def fsync(handle):
            if kind(os.fstat(handle).st_mode):
                raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", fsync)

    refused(stat.S_ISDIR)
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            state_files.write_atomically(tmp_path / "c", fill)
        return
    state_files.write_atomically(tmp_path / "c", fill)
    refused(stat.S_ISREG)
    with pytest.raises(OSError, match=os.strerror(code)):
        state_files.write_atomically(tmp_path / "d", fill)


@pytest.mark.slow
def test_every_flipped_bit_of_a_manifest_is_detected(checkpoint):
    path = checkpoint / manifest.MANIFEST
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError) as caught:
            state_files.resolve(checkpoint)
        assert "\n" not in str(caught.value)
    path.write_bytes(content)
    assert state_files.resolve(checkpoint) == checkpoint


def test_malformed_manifests_are_rejected(checkpoint):
    files = ("[]", "null", '{"weights": 5}', '{"weights": [5]}', '{"weights": ["5", 1]}', '{}, "more": 1')
    contents = ["", "{", "[]", "null", "3", '{"format": 2, "filez": {}}', "[" * 100_000, "\xff\xfe"]
    for content in contents + [f'{{"format": 2, "files": {entry}}}' for entry in files]:
        (checkpoint / manifest.MANIFEST).write_bytes(content.encode("latin-1"))
        with pytest.raises(CheckpointError):
            state_files.resolve(checkpoint)


def test_names_outside_the_folder_are_rejected(checkpoint):
    (checkpoint.parent / "outside").write_text("x")
    valid = dict(manifest.read(checkpoint))
    for name in ("../outside", "/etc/hostname", "deep/../../outside", "", "deep/.."):
        manifest._write(checkpoint, valid | {name: [1, zlib.crc32(b"x")]})
        with pytest.raises(CheckpointError, match="expected the name of a file in the checkpoint"):
            state_files.resolve(checkpoint, trusted=True)


def test_unlisted_files_are_rejected(checkpoint):
    (checkpoint / ".nfs0001").write_text("hidden files of network disks and file managers are ignored")
    (checkpoint / "deep" / ".x").mkdir()
    for name in ("state.msgpack", "deep/state.pkl", "settings.json", "deep/.x/../more.pkl"):
        (checkpoint / name).write_text("x")
        with pytest.raises(CheckpointError, match=r"is not listed in manifest\.json"):
            state_files.resolve(checkpoint)
        assert state_files.resolve(checkpoint, trusted=True) == checkpoint
        (checkpoint / name).unlink()


def test_symbolic_links_are_rejected(checkpoint):
    elsewhere = checkpoint.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("deep/link", ".link"):
        for target in (elsewhere, checkpoint / "weights"):
            (checkpoint / name).symlink_to(target)
            with pytest.raises(CheckpointError, match="is a symbolic link"):
                state_files.resolve(checkpoint)
            (checkpoint / name).unlink()
    linked = checkpoint.parent / "linked"
    linked.symlink_to(checkpoint)
    assert state_files.resolve(linked) == linked, "the path to the folder may contain links"


# -- settings -------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    folder = RunFolder.create(tmp_path, "run")
    write = lambda path: state_files.write_atomically(path, fill)
    settings = [{"env": "A-v0", "actor_lr": 0.001, "steps": steps} for steps in (1000, 2000)]
    older, newer = (folder.save(s["steps"], write, s, keep=2) for s in settings)
    return newer, older


class Algorithm:
    """Restores any complete checkpoint."""

    def restore_from_path(self, path):
        state_files.resolve(path)


@pytest.mark.parametrize("name", ["settings.json", manifest.MANIFEST, "weights"])
@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_the_previous_checkpoint_is_used_if_one_is_damaged(two, name, damage):
    newer, older = two
    content = bytearray((newer / name).read_bytes())
    content[re.search(rb"\d\D*$", content).start()] ^= 1  # the last digit: the file remains valid JSON
    (newer / name).unlink() if damage == "missing" else (newer / name).write_bytes(content)
    reports = []
    assert first_settings([newer, older])["steps"] == (2000 if name == "weights" else 1000)
    assert restore(Algorithm(), [newer, older], reports.append) == older
    assert reports[0].startswith("checkpoint_00002000 is unusable (") and name in reports[0]
    assert reports[0].endswith("resuming from checkpoint_00001000")


def test_settings_that_are_not_a_mapping_are_rejected(checkpoint):
    manifest.add(checkpoint, "settings.json", "[1]")
    with pytest.raises(CheckpointError, match="settings.json is damaged: expected values by name"):
        read_settings(checkpoint)
