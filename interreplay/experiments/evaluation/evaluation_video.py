"""A video of the first episode of every evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.experiments.evaluation.video import Camera, check_drawing

MOST_FRAMES, MOST_PIXELS = 200, 240
"""Of a video, and along a side of it: longer and larger ones are thinned out."""


class EvaluationVideo:
    """Films the first episode of every evaluation of a configuration.

    Args:
        config: Of an algorithm whose evaluation is in this process; it is changed.

    Raises:
        UsageError: The environment cannot be drawn.
    """

    def __init__(self, config: Any):
        self._frames: list[np.ndarray] = []
        self._episode: str | None = None
        drawn = {"env_config": {**config.env_config, "render_mode": "rgb_array"}}
        check_drawing(config.copy(copy_frozen=False).environment(**drawn))
        config.evaluation(
            evaluation_num_env_runners=0,
            evaluation_config={
                **(config.evaluation_config or {}),
                **drawn,
                "num_envs_per_env_runner": 1,
                "callbacks_on_episode_step": Camera(self._add),
            },
        )

    def _add(self, frame: np.ndarray, episode: str) -> None:
        self._episode = self._episode or episode
        if episode == self._episode:
            step = -(-max(frame.shape[:2]) // MOST_PIXELS)
            self._frames.append(np.ascontiguousarray(frame[::step, ::step]))

    def take(self) -> list[np.ndarray]:
        """Return pictures of the evaluation since the last call, at most 200 of 240 pixels a side; maybe none."""
        frames, self._frames, self._episode = self._frames, [], None
        return frames[:: -(-len(frames) // MOST_FRAMES) or 1]
