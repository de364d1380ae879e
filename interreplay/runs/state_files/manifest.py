"""Manifests list the files of a folder with sizes and checksums, to detect damage and files added later."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from interreplay.errors import CheckpointError
from interreplay.runs.state_files.disk import replacement, sync

MANIFEST = "manifest.json"
FORMAT = 2
BLOCK = 1 << 20  # bytes read at a time for a checksum

Entry = tuple[int, int]
"""Size in bytes and checksum of a file."""


def seal(folder: Path) -> None:
    """Flush every file to disk and write the manifest."""
    entries = {}
    for path in folder.rglob("*"):
        if path.is_dir():
            sync(path)
        elif path.name != MANIFEST:
            entries[str(path.relative_to(folder))] = _flush(path)
    _write(folder, entries)


def add(folder: Path, name: str, text: str) -> None:
    """Write one more file into a sealed folder. A folder without a manifest is sealed."""
    (folder / name).write_text(text)
    if (folder / MANIFEST).exists():
        _write(folder, read(folder) | {name: _flush(folder / name)})
    else:
        seal(folder)


def check(folder: Path, trusted: bool = False) -> None:
    """Compare a folder with its manifest; a trusted one may contain links and further files."""
    entries = read(folder)
    if not trusted:
        known = {*entries, MANIFEST}
        check_links(folder)
        for path in filter(Path.is_file, sorted(folder.rglob("*"))):
            relative = path.relative_to(folder)
            if str(relative) not in known and not any(part.startswith(".") for part in relative.parts):
                raise CheckpointError(f"{path} is not listed in {MANIFEST}: it was added after the checkpoint")
    for name, entry in entries.items():
        _check_file(folder / name, entry)


def read_values(folder: Path, name: str) -> dict[str, Any]:
    """Return the values in a JSON file of a folder, after comparing the file with the manifest."""
    path = folder / name
    try:
        text = path.read_text()
        entries = read(folder)
        if name not in entries:
            raise CheckpointError(f"{path} is not listed in {MANIFEST}")
        _check_file(path, entries[name])
        values = json.loads(text)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is damaged: expected values by name")
    return values


def check_part(folder: Path, part: str) -> None:
    """Compare the files in one folder of a checkpoint with the manifest, without reading the others."""
    for name, entry in read(folder).items():
        if name.startswith(f"{part}/"):
            _check_file(folder / name, entry)


def check_links(folder: Path) -> None:
    """Raise CheckpointError if a folder contains symbolic links, because their targets can change at any time."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            if path.is_symlink():
                raise CheckpointError(f"{path} is a symbolic link; expected a file or a folder")


def read(folder: Path) -> dict[str, Entry]:
    """Return the files that the manifest lists, with their sizes and checksums."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder} is not a complete checkpoint: {MANIFEST} cannot be read") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise CheckpointError(f"{path} is damaged: expected the files of the checkpoint by name")
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder} has the format {manifest.get('format')}, which this version cannot read; expected {FORMAT}"
        )
    if set(manifest) != {"format", "files", "checksum"} or manifest["checksum"] != _compute_checksum(manifest["files"]):
        raise CheckpointError(f"{path} has a wrong checksum: the checkpoint is damaged")
    found = {}
    for name, entry in manifest["files"].items():
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts:
            raise CheckpointError(f"{path} lists {name!r}; expected the name of a file in the checkpoint")
        size, checksum = entry
        found[name] = (size, checksum)
    return found


def _write(folder: Path, entries: dict[str, Entry]) -> None:
    text = json.dumps({"format": FORMAT, "files": entries, "checksum": _compute_checksum(entries)})
    with replacement(folder / MANIFEST) as file:
        file.write(text)


def _compute_checksum(entries: dict[str, Any]) -> int:
    """Return the checksum of a manifest."""
    return zlib.crc32(json.dumps([FORMAT, sorted(entries.items())]).encode())


def _flush(path: Path) -> Entry:
    sync(path)
    return path.stat().st_size, _checksum(path)


def _check_file(path: Path, entry: Entry) -> None:
    size, checksum = entry
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; expected {size} bytes: the checkpoint is damaged")
    found = path.stat().st_size
    if found != size:
        raise CheckpointError(f"{path} has {found} bytes; expected {size}: the checkpoint is damaged")
    if _checksum(path) != checksum:
        raise CheckpointError(f"{path} has a wrong checksum: the checkpoint is damaged")


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            value = zlib.crc32(block, value)
    return value
