"""Results on object stores, through fsspec: a remote folder and its local copy, in which runs work."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import fsspec

from interreplay.errors import UsageError

LAST = "manifest.json"
"""The file of a checkpoint that is uploaded last: a checkpoint without it is incomplete."""
_CHECKPOINT = re.compile(r"(^|/)(best_)?checkpoint_")
SMALL = ("study.yaml", "status.json", "progress.csv", "params.json", "drawn.json")


def is_elsewhere(place: str) -> bool:
    """Return whether a folder is a URI such as ``s3://bucket/study``. ``file://`` is a local folder."""
    return "://" in place and not place.startswith("file://")


class Store:
    """A remote folder and its local copy.

    Args:
        uri: A URI that fsspec supports.

    Attributes:
        here: The local copy, the same for all processes of a user on a machine.

    Raises:
        UsageError: fsspec does not support the URI, or cannot write to it.
    """

    def __init__(self, uri: str):
        self.uri = uri.rstrip("/")
        try:
            self._fs, root = fsspec.core.url_to_fs(self.uri)
            self._fs.makedirs(root, exist_ok=True)
        except Exception as error:  # each file system raises its own errors
            reason = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"--output_dir {uri} cannot be written to ({reason}); expected a writable folder"
            ) from None
        self._root = root.rstrip("/")
        digest = hashlib.sha256(self.uri.encode()).hexdigest()[:12]
        self.here = Path(tempfile.gettempdir(), f"interreplay-{os.getuid()}", digest)
        self.here.mkdir(parents=True, exist_ok=True)

    def pull(self, part: str = "", only: Iterable[str] = ()) -> None:
        """Download a part of the folder. Remote files replace local ones.

        Args:
            part: A folder within the folder; ``""`` for the whole folder.
            only: Names of files to download. Without them, local files that are not remote are removed.
        """
        names = self._names(part)
        selected = set(only)
        if not selected:
            shutil.rmtree(self.here / part, ignore_errors=True)
        for name in names:
            if not selected or name.rsplit("/", 1)[-1] in selected:
                target = self.here / name
                target.parent.mkdir(parents=True, exist_ok=True)
                self._fs.get_file(f"{self._root}/{name}", str(target))

    def push(self, part: str = "", only: Iterable[str] = ()) -> None:
        """Upload a part of the local copy. Manifests are last, so that no incomplete checkpoint appears complete.

        Args:
            part: A folder within the folder.
            only: Names of files to upload. Without them, remote files that are not local are removed.
        """
        selected = set(only)
        remote = set(self._names(part))
        local = set()
        for path in (self.here / part).rglob("*"):
            name = path.relative_to(self.here).as_posix()
            if path.is_file() and not re.search(r"(^|/)\.", name):
                local.add(name)
        for name in sorted(local, key=lambda name: name.endswith(LAST)):
            if selected and name.rsplit("/", 1)[-1] not in selected:
                continue
            if name in remote and _CHECKPOINT.search(name):  # files of checkpoints never change
                continue
            self._fs.put_file(str(self.here / name), f"{self._root}/{name}")
        if not selected:
            for name in sorted(remote - local, key=lambda name: not name.endswith(LAST)):
                self._fs.rm_file(f"{self._root}/{name}")

    def _names(self, part: str) -> list[str]:
        """Return the remote files of a part, relative to the folder."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(f"{self._root}/{part}".rstrip("/"))
        except FileNotFoundError:
            return []
        return [name.removeprefix(self._root).lstrip("/") for name in found]
