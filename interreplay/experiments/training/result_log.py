"""Write the results of a run: the formats of Ray Tune's loggers, TensorBoard's events, and a row per episode."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
from ray.tune.logger import LoggerCallback
from ray.tune.utils import flatten_dict
from ray.tune.utils.util import SafeFallbackEncoder
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from interreplay.diagnostics.episode_table import COLUMNS, EpisodeTable
from interreplay.runs.state_files.disk import replacement

EPISODES = "episodes.csv"
EPISODE_NAMES = {
    "episode_return_mean": "return",
    "episode_return_min": "return_min",
    "episode_return_max": "return_max",
    "episode_len_mean": "episode_length",
    "success_rate": "success_rate",
    "num_episodes_lifetime": "episodes",
}
"""Names of results about episodes in TensorBoard."""
SPEED_NAMES = {
    "env_runners/num_env_steps_sampled_lifetime_throughput/throughput_since_last_reduce": "env_steps_per_second",
    "learners/default_policy/num_updates_lifetime": "updates",
    "time_total_s": "seconds",
    "timers/training_iteration": "iteration_seconds",
    "timers/evaluation_iteration": "evaluation_seconds",
    "env_runners/env_step_timer": "env_step_seconds",
}
"""Names in TensorBoard's group ``speed``."""
_RUNNERS = re.compile(r"(evaluation/)?env_runners/(.+)")
_HOST = re.compile(
    r"(agent_|module_|num_|connector|env_to_module|module_to_env|episode_|sample$|.*_timer$|weights_seq)"
)
"""Numbers of RLlib about its env runners, which TensorBoard omits."""
_LEFT_OUT = re.compile(
    r"(config|pid|hostname|timers|perf|fault_tolerance|env_runner_group|info|done|timestamp|iterations_since_restore|"
    r"time_\w+|timesteps_total|env_steps|num_\w+|training_iteration|evaluation/(actor_manager\w*|num_\w+)|"
    r"learners/__all_modules__|learners/default_policy/num_\w+)(/|$)"
)
"""Further results that TensorBoard omits."""


@contextlib.contextmanager
def append_together(*paths: Path) -> Iterator[list[bool]]:
    """Append to files in the block, to all or to none: after an OSError, they have their former size.

    Yield whether each file is empty. Missing files are created.
    """
    sizes = []
    for path in paths:
        path.touch()
        sizes.append(path.stat().st_size)
    try:
        yield [size == 0 for size in sizes]
    except OSError:
        for path, size in zip(paths, sizes, strict=True):
            os.truncate(path, size)  # requires no space
        raise


class _Run(SimpleNamespace):
    """The attributes of a Tune trial that its logger callbacks read."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.trial_id


class RunLog:
    """Writes ``params.json``, ``progress.csv``, ``result.json`` and TensorBoard's events, or continues them.

    A result is written to all files or to none. The cost of an iteration does not grow with the run. Trackers are
    further logger callbacks of Tune, such as those for Weights & Biases and MLflow. One that fails is reported and
    removed, and the run continues.
    """

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        steps: int = 0,
        trackers: Sequence[LoggerCallback] = (),
        notify: Callable[[str], object] = str,
    ):
        self._run = _Run(
            local_path=str(folder.absolute()),
            config=config,
            checkpoint=None,
            trial_id=folder.absolute().name,  # identifies a resumed run
            experiment_dir_name=f"{config.get('trainer')} {config.get('env')} {config.get('buffer')}",  # of a group
        )
        self._notify = notify
        parameters = json.dumps(dict(sorted(config.items())), indent=2, cls=SafeFallbackEncoder)
        with replacement(folder / "params.json") as file:
            file.write(parameters)
        self._lines = folder / "result.json"
        self._lines.touch()
        self._table = folder / "progress.csv"
        self._header: list[str] = []
        if self._table.exists():
            with self._table.open(newline="") as table:
                self._header = next(csv.reader(table), [])
        self._events = EventFile(folder, steps)
        self._trackers = list(trackers)
        self._for_each_tracker(lambda tracker: tracker.log_trial_start(self._run))

    def write(self, result: dict[str, Any], steps: int) -> None:
        """Add one result, to each file or to none. After an `OSError`, no further result can be added."""
        row = dict(result)
        row.pop("config", None)
        row["timesteps_total"] = steps
        columns = flatten_dict(row, delimiter="/")
        self._add_columns(columns)
        try:
            with append_together(self._table, self._lines) as (is_new, _):
                with self._table.open("a", newline="") as file:
                    writer = csv.DictWriter(file, self._header, restval="")
                    if is_new:
                        writer.writeheader()
                    writer.writerow(columns)
                with self._lines.open("a") as file:
                    file.write(json.dumps(row, cls=SafeFallbackEncoder) + "\n")
                self._events.add_scalars(scalars(row), steps)
        except OSError:
            self._events.discard()
            raise
        self._for_each_tracker(
            lambda tracker: tracker.log_trial_result(result["training_iteration"], self._run, dict(row))
        )

    def _add_columns(self, row: dict[str, Any]) -> None:
        """Add new columns to the table; they are empty in earlier rows."""
        header = list(dict.fromkeys([*self._header, *row]))
        if self._header and len(header) > len(self._header):
            with self._table.open(newline="") as old, replacement(self._table) as new:
                writer = csv.DictWriter(new, header, restval="")
                writer.writeheader()
                writer.writerows(csv.DictReader(old))
        self._header = header

    def video(self, frames: list[np.ndarray], steps: int) -> None:
        """Add a video of an evaluation, images ``(height, width, 3)`` uint8, to TensorBoard's images."""
        from interreplay.experiments.evaluation.video import gif

        height, width, _ = frames[0].shape
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif(frames))
        self._events.add([Summary.Value(tag="evaluation", image=image)], steps)

    def close(self) -> None:
        """Close the files."""
        with contextlib.suppress(OSError):  # full disk, reported by `write`
            self._events.close()
        self._for_each_tracker(lambda tracker: tracker.log_trial_end(self._run))
        self._for_each_tracker(lambda tracker: tracker.on_experiment_end([]))

    def _for_each_tracker(self, act: Callable[[LoggerCallback], object]) -> None:
        for tracker in list(self._trackers):
            try:
                act(tracker)
            except Exception as error:  # an error of a remote service
                self._trackers.remove(tracker)
                reason = " ".join(str(error).split())
                self._notify(f"{type(tracker).__name__} stopped, the run continues without it: {reason}")


class EpisodeFile:
    """Writes the finished episodes of a run, if it records them, or continues a file that `RunFolder` has rewound."""

    def __init__(self, folder: Path, algo: Any):
        self.path = folder / EPISODES
        self._table: EpisodeTable | None = getattr(algo, "episode_table", None)
        self._last = 0
        if self._table is not None and self.path.exists():
            with self.path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self._last = int(row["episode"])
            # After --recover, the file has more episodes than the checkpoint.
            self._table.finished = max(self._table.finished, self._last)

    def write(self) -> None:
        """Append the episodes that finished since the last call.

        Raises:
            OSError: The rows could not be written. They remain in the table, and a checkpoint contains them.
        """
        if self._table is None:
            return
        rows = [row for row in self._table.rows if row["episode"] > self._last]
        if rows or not self.path.exists():
            with append_together(self.path) as (is_new,), self.path.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                if is_new:
                    writer.writeheader()
                writer.writerows(rows)
        if rows:
            self._last = rows[-1]["episode"]
        self._table.take()


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
        self.add([Summary.Value(tag=name, simple_value=value) for name, value in scalars], steps)
        self._writer.flush()

    def add(self, values: list[Any], steps: int) -> None:
        """Add values at `steps` environment steps."""
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
        name = _name_number(key)
        if name is not None and not math.isnan(value):
            yield name, float(value)


def _name_number(key: str) -> str | None:
    """Return the name of a number in TensorBoard, None if it is omitted."""
    if key in SPEED_NAMES:
        return f"speed/{SPEED_NAMES[key]}"
    match = _RUNNERS.fullmatch(key)
    if match:
        group = (match[1] or "training/").rstrip("/")
        inner = EPISODE_NAMES.get(match[2], match[2])
        if _HOST.match(inner) and match[2] not in EPISODE_NAMES:
            return None
        return f"{group}/{inner}"
    if _LEFT_OUT.match(key):
        return None
    for prefix, group in (("learners/default_policy/", "learner"), ("replay_buffer/", "replay")):
        if key.startswith(prefix):
            return f"{group}/{key.removeprefix(prefix)}"
    return f"other/{key}"
