"""TensorBoard's event files, and the numbers of a result that they show, in a few groups with standard names."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from ray.tune.utils import flatten_dict
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

EPISODES = {
    "episode_return_mean": "return",
    "episode_return_min": "return_min",
    "episode_return_max": "return_max",
    "episode_len_mean": "episode_length",
    "success_rate": "success_rate",
    "num_episodes_lifetime": "episodes",
}
SPEED = {
    "env_runners/num_env_steps_sampled_lifetime_throughput/throughput_since_last_reduce": "env_steps_per_second",
    "learners/default_policy/num_updates_lifetime": "updates",
    "time_total_s": "seconds",
    "timers/training_iteration": "iteration_seconds",
    "timers/evaluation_iteration": "evaluation_seconds",
    "env_runners/env_step_timer": "env_step_seconds",
}
_RUNNERS = re.compile(r"(evaluation/)?env_runners/(.+)")
_HOST = re.compile(
    r"(agent_|module_|num_|connector|env_to_module|module_to_env|episode_|sample$|.*_timer$|weights_seq)"
)
_LEFT_OUT = re.compile(
    r"(config|pid|hostname|timers|perf|fault_tolerance|env_runner_group|info|done|timestamp|iterations_since_restore|"
    r"time_\w+|timesteps_total|env_steps|num_\w+|training_iteration|evaluation/(actor_manager\w*|num_\w+)|"
    r"learners/__all_modules__|learners/default_policy/num_\w+)(/|$)"
)


class EventFile:
    """Events of one run. A failed write raises; tensorboardX's thread dies silently when the disk is full.

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
        from interreplay.experiments.evaluation.video import gif

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


def scalars(result: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the names and values of a result that TensorBoard shows.

    The groups are ``evaluation``, ``training`` (episodes), ``learner`` (losses), ``replay`` and ``speed``. Metrics of
    user callbacks are in ``other``, or with the episodes if they were logged next to them.
    """
    for key, value in flatten_dict(dict(result), delimiter="/").items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            continue
        name = _named(key)
        if name is not None and not math.isnan(value):
            yield name, float(value)


def _named(key: str) -> str | None:
    """Return the name of a number in TensorBoard, None if it is omitted."""
    if key in SPEED:
        return f"speed/{SPEED[key]}"
    match = _RUNNERS.fullmatch(key)
    if match:
        group = (match[1] or "training/").rstrip("/")
        inner = EPISODES.get(match[2], match[2])
        if _HOST.match(inner) and match[2] not in EPISODES:
            return None
        return f"{group}/{inner}"
    if _LEFT_OUT.match(key):
        return None
    for prefix, group in (("learners/default_policy/", "learner"), ("replay_buffer/", "replay")):
        if key.startswith(prefix):
            return f"{group}/{key.removeprefix(prefix)}"
    return f"other/{key}"
