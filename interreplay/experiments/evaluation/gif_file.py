"""A GIF that grows by single pictures; Pillow, which compresses them, would keep all of them until the last."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops

_HEADER, _END, _EXTENSION = b"GIF89a", b"\x3b", 0x21
_FOREVER = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
MOST_FPS = 50
"""Browsers show what is meant to be faster than this at a tenth of a second per picture."""


class GifFile:
    """A GIF on disk of which one picture is in memory, in the blocks of the GIF89a specification (CompuServe 1990).

    Args:
        path: Where it is written.
        fps: Pictures per second, at most 50.
    """

    def __init__(self, path: Path, fps: float):
        self._file, self._fps, self._count = path.open("wb"), fps, 0
        self._shown: Image.Image | None = None

    def add(self, frame: np.ndarray) -> None:
        """Append a picture ``(height, width, 3)`` uint8, all of one size; of it what differs from the one before."""
        picture = Image.fromarray(frame)
        if self._shown is None:
            screen = struct.pack("<HHBBB", *picture.size, 0x70, 0, 0)
            self._file.write(_HEADER + screen + _FOREVER)
            box = (0, 0, *picture.size)
        else:
            box = ImageChops.difference(picture, self._shown).getbbox() or (0, 0, 1, 1)
        since, until = (round(100 * count / self._fps) for count in (self._count, self._count + 1))
        self._file.write(struct.pack("<BBBBHBB", _EXTENSION, 0xF9, 4, 4, until - since, 0, 0))
        self._file.write(_image_block(picture.crop(box), box[:2]))
        self._shown, self._count = picture, self._count + 1

    def close(self) -> None:
        """Finish the file."""
        self._file.write(_END)
        self._file.close()


def _image_block(picture: Image.Image, corner: tuple[int, ...]) -> bytes:
    """Return a picture with its own table of colors, cut out of the GIF that Pillow makes of it alone."""
    file = io.BytesIO()
    picture.quantize(256).save(file, format="GIF")
    data = file.getvalue()
    table_bits = data[10] & 7
    at = 13 + (6 << table_bits)
    table = data[13:at]
    while data[at] == _EXTENSION:
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    interlaced = data[at + 9] & 0x40
    place = struct.pack("<BHHHHB", 0x2C, *corner, *picture.size, 0x80 | interlaced | table_bits)
    return place + table + data[at + 10 : -len(_END)]
