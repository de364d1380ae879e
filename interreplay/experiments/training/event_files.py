"""TensorBoard's event files. A failed write raises in the writing thread."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from interreplay.experiments.evaluation.video import gif


class EventFile:
    """Events of one run, without tensorboardX's thread, which dies silently when the disk is full.

    TensorBoard hides earlier events beyond the env steps from which a resumed run continues.
    """

    def __init__(self, folder: Path, steps: int):
        # The names of event files contain whole seconds only.
        self._writer = EventsWriter(str(folder / "events"), filename_suffix=f".{os.getpid()}.{steps}")
        if steps:
            session = SessionLog(status=SessionLog.START)
            self._writer.write_event(Event(wall_time=time.time(), step=steps + 1, session_log=session))

    @property
    def file(self) -> IO[bytes]:
        """The open file."""
        return self._writer._py_recordio_writer._writer

    def add_scalars(self, scalars: Iterable[tuple[str, float]], steps: int) -> None:
        """Add numbers by their names at `steps` environment steps, and flush the file to disk."""
        self._add([Summary.Value(tag=name, simple_value=value) for name, value in scalars], steps)
        self._writer.flush()

    def add_video(self, name: str, frames: list[np.ndarray], steps: int) -> None:
        """Add a video to the images; arguments as for `RunLog.video`."""
        height, width, _ = frames[0].shape
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif(frames))
        self._add([Summary.Value(tag=name, image=image)], steps)

    def _add(self, values: list[Any], steps: int) -> None:
        self._writer.write_event(Event(wall_time=time.time(), step=steps, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        if not self.file.closed:
            self._writer.close()

    def discard(self) -> None:
        """Close the file after a failed write, without writing its buffer, which would fail again."""
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), self.file.fileno())
        self.file.close()
