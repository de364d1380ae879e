"""Results on object stores and the like, through fsspec: a folder elsewhere, and its copy here, which is worked in."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import fsspec

from interreplay.errors import UsageError

LAST = "manifest.json"  # a checkpoint without it does not count
SMALL = ("study.yaml", "status.json", "progress.csv", "params.json", "drawn.json")


def is_elsewhere(place: str) -> bool:
    """Return whether a folder is named by a URI such as ``s3://bucket/study``; ``file://`` is here."""
    return "://" in place and not place.startswith("file://")


class Store:
    """A folder named by a URI, and its copy here.

    Args:
        uri: As fsspec understands it.

    Attributes:
        here: The copy, the same for all processes of a user on a machine.

    Raises:
        UsageError: fsspec knows no such place, or cannot write there.
    """

    def __init__(self, uri: str):
        self.uri = uri.rstrip("/")
        try:
            self._fs, root = fsspec.core.url_to_fs(self.uri)
            self._fs.makedirs(root, exist_ok=True)
        except Exception as error:  # every kind of place has errors of its own
            told = f"{type(error).__name__}: {error}"
            raise UsageError(f"--output_dir {uri} cannot be written to ({told}); give a folder that can") from None
        self._root = root.rstrip("/")
        digest = hashlib.sha256(self.uri.encode()).hexdigest()[:12]
        self.here = Path(tempfile.gettempdir(), f"interreplay-{os.getuid()}", digest)
        self.here.mkdir(parents=True, exist_ok=True)

    def pull(self, part: str = "", only: Iterable[str] = ()) -> None:
        """Bring a part of the folder here, all of it or the files of some names; what is elsewhere wins.

        Args:
            part: A folder within it; ``""`` for all.
            only: Names of files; none for all, and then what is not elsewhere is removed here.
        """
        names, wanted = self._names(part), set(only)
        if not wanted:
            shutil.rmtree(self.here / part, ignore_errors=True)
        for name in names:
            if not wanted or name.rsplit("/", 1)[-1] in wanted:
                target = self.here / name
                target.parent.mkdir(parents=True, exist_ok=True)
                self._fs.get_file(f"{self._root}/{name}", str(target))

    def push(self, part: str = "", only: Iterable[str] = ()) -> None:
        """Bring a part of what is here to the folder; manifests last, so that no checkpoint looks whole before it is.

        Args:
            part: A folder within it.
            only: Names of files; none for all, and then what is not here is removed there.
        """
        wanted = set(only)
        begin = self.here / part
        files = [path for path in begin.rglob("*") if path.is_file() and not _hidden(path.relative_to(begin))]
        there = set(self._names(part))
        for path in sorted(files, key=lambda path: path.name == LAST):
            name = path.relative_to(self.here).as_posix()
            # Files of a checkpoint never change.
            if (not wanted or path.name in wanted) and not (_in_checkpoint(name) and name in there):
                self._fs.put_file(str(path), f"{self._root}/{name}")
        if not wanted:
            gone = there - {path.relative_to(self.here).as_posix() for path in files}
            for name in sorted(gone, key=lambda name: not name.endswith(LAST)):
                self._fs.rm_file(f"{self._root}/{name}")

    def _names(self, part: str) -> list[str]:
        """Return the files of a part, relative to the folder."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(f"{self._root}/{part}".rstrip("/"))
        except FileNotFoundError:
            return []
        return [name.removeprefix(self._root).lstrip("/") for name in found]


def _in_checkpoint(name: str) -> bool:
    return any(part.removeprefix("best_").startswith("checkpoint_") for part in name.split("/"))


def _hidden(path: Path) -> bool:
    return any(name.startswith(".") for name in path.parts)
