"""TensorBoard's events, written where an error is noticed."""

from __future__ import annotations

import functools
from typing import IO, Any

import numpy as np
from ray.tune.logger import TBXLoggerCallback
from tensorboardX import SummaryWriter
from tensorboardX.event_file_writer import EventFileWriter
from tensorboardX.proto.summary_pb2 import Summary

from interreplay.experiments.evaluation.video import gif
from interreplay.experiments.training.scalars import scalars


class Events(TBXLoggerCallback):
    """TensorBoard's events; those past the step that a resumed run starts from are hidden.

    Args:
        steps: That step.
    """

    def __init__(self, steps: int):
        super().__init__()
        self._summary_writer_cls = functools.partial(_Writer, **({"purge_step": steps + 1} if steps else {}))

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Add the numbers that `scalars` names, at the environment steps of the result."""
        if trial not in self._trial_writer:
            self.log_trial_start(trial)
        step = result.get("timesteps_total") or iteration
        for name, value in scalars(result):
            self._trial_writer[trial].add_scalar(name, value, global_step=step)
        self._trial_result[trial] = {}
        self._trial_writer[trial].flush()

    def video(self, trial: Any, name: str, frames: list[np.ndarray], steps: int) -> None:
        """Add a video to the images; arguments as `RunLog.video` has them."""
        height, width, _ = frames[0].shape
        picture = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif(frames))
        writer = self._trial_writer[trial]
        writer._get_file_writer().add_summary(Summary(value=[Summary.Value(tag=name, image=picture)]), steps)

    def file(self, trial: Any) -> IO[bytes] | None:
        """Return the open file of a trial."""
        writer = self._trial_writer.get(trial)
        return writer._get_file_writer().event_writer.file if writer is not None else None


class _Writer(SummaryWriter):
    """A writer without tensorboardX's thread, which dies of a full disk; the eleventh event then waits for ever."""

    def _get_file_writer(self) -> Any:
        begun = self.file_writer is None
        writer = super()._get_file_writer()
        if begun:
            writer.event_writer = _Direct(writer.event_writer)
        return writer


class _Direct:
    """What tensorboardX's `FileWriter` needs of an event writer, without a queue between."""

    def __init__(self, queued: EventFileWriter):
        queued._worker.stop()  # once it has written what it has
        self._events, self._logdir = queued._ev_writer, queued.get_logdir()

    @property
    def file(self) -> IO[bytes]:
        return self._events._py_recordio_writer._writer

    def get_logdir(self) -> str:
        return self._logdir

    def add_event(self, event: Any) -> None:
        self._events.write_event(event)

    def flush(self) -> None:
        if not self.file.closed:
            self._events.flush()

    def close(self) -> None:
        if not self.file.closed:
            self._events.close()
