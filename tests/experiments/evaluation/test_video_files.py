"""Video files: size, speed, and the episodes that they show."""

import contextlib
import gc
import re
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from builders import full_disk
from PIL import Image

from interreplay.errors import UsageError
from interreplay.experiments.evaluation import play, video
from interreplay.rllib import SACConfig

DOUBLE_PENDULUM = "InvertedDoublePendulum-v5"


def pictures(count, height=40, width=60):
    """A background of 64 colors with a moving red square; frames 3 and 4 are equal."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 4, (height, width, 3), dtype=np.uint8) * 64
    found = []
    for i in range(count):
        frame = base.copy()
        frame[i : i + 10, i : i + 10] = (255, 0, 0)
        found.append(found[-1] if i == 4 else frame)
    return found


def read(path):
    """Return frames ``(count, height, width, 3)`` and the delay of each in milliseconds."""
    with Image.open(path) as film:
        frames, durations = [], []
        for i in range(film.n_frames):
            film.seek(i)
            frames.append(np.asarray(film.convert("RGB")))
            durations.append(film.info["duration"])
        return np.stack(frames), durations


def record(path, frames, fps=video.FPS, episodes=3):
    """Write one episode; return the frames read from the GIF and their delays in milliseconds."""
    film = video.VideoFile(path, episodes)
    film.fps = fps
    for frame in frames:
        if film.next_step_is_shown():
            film.add(frame)
    film.close()
    return read(path)


def test_a_gif_shows_every_frame_at_the_speed_of_the_environment(tmp_path):
    frames = pictures(12)
    for fps, shown, delay in [(20, frames, 50), (50, frames, 20), (125, frames[::3], 20)]:
        seen, delays = record(tmp_path / "a.gif", frames, fps)
        # Pillow joins equal consecutive frames.
        assert sum(delays) == pytest.approx(len(shown) * delay, abs=10), fps
        assert np.abs(seen[-1].astype(int) - shown[-1]).max() < 40, fps
        assert len(seen) >= len(shown) - 1, fps


def test_large_frames_are_scaled_down(tmp_path):
    big = np.zeros((480, 640, 3), np.uint8)
    big[:, 320:] = 200
    seen, _ = record(tmp_path / "a.gif", [big])
    assert seen[0].shape == (240, 320, 3) and np.array_equal(seen[0][:, [0, 319], 0], [[0, 200]] * 240)
    small = np.zeros((16, 8, 3), np.uint8)
    assert np.array_equal(video.scale_down(small, 320), small)


def test_only_the_first_episodes_are_rendered(tmp_path):
    film = video.VideoFile(tmp_path / "a.gif", episodes=2)
    drawn = []
    for episode in range(4):
        for frame in pictures(5):
            if film.next_step_is_shown():
                film.add(frame)
                drawn.append(episode)
        film.end_episode()
    film.close()
    assert drawn == [0] * 5 + [1] * 5 and film.summary().endswith("a.gif (10 frames of 2 episodes)")


def test_an_unwritable_video_is_a_usage_error(tmp_path):
    film = video.VideoFile(tmp_path / "a.gif")
    (tmp_path / "a.gif").mkdir()
    with pytest.raises(UsageError, match=r"a\.gif cannot be written: Is a directory"):
        film.add(pictures(1)[0])
        film.close()


@pytest.mark.parametrize("name", ["a.gif", "a.mp4"])
def test_an_earlier_video_is_replaced_when_the_new_one_is_complete(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"earlier")
    film = video.VideoFile(path)
    for frame in pictures(3):
        film.add(frame)
    assert path.read_bytes() == b"earlier"
    film.close()
    assert len(path.read_bytes()) > 100 and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("complete", [False, True])
def test_an_interrupted_evaluation_replaces_an_earlier_video_only_by_a_complete_one(tmp_path, monkeypatch, complete):
    path = tmp_path / "a.gif"
    path.write_bytes(b"earlier")

    def fill(config, film, window):
        for frame in pictures(3):
            film.next_step_is_shown()
            film.add(frame)
        if complete:
            film.end_episode()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(play, "find", lambda folder: [folder])
    monkeypatch.setattr(play, "read_config", lambda *_: SimpleNamespace(algo_class=int))
    monkeypatch.setattr(play, "playback_config", fill)
    monkeypatch.setattr(play, "build_algorithm", lambda _: SimpleNamespace(stop=list))
    monkeypatch.setattr(play, "restore", interrupt)
    with pytest.raises(KeyboardInterrupt):
        play.watch(tmp_path, video=path, video_episodes=1)
    assert (path.read_bytes() == b"earlier") != complete and [*tmp_path.iterdir()] == [path]


def test_a_gif_on_a_full_disk_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(UsageError, match=r"a\.gif cannot be written: No space left on device"):
        record(tmp_path / "a.gif", pictures(2))
    assert [*tmp_path.iterdir()] == []


class Film(gym.Env):
    """An environment whose frames are given."""

    observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, config):
        self.frame = config["frame"]

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def render(self):
        return self.frame


@pytest.mark.parametrize("frame", [np.zeros((4, 6, 3)), np.zeros((4, 6, 1), np.uint8), np.zeros((4, 6), np.uint8)])
def test_frames_that_are_no_color_images_are_rejected(frame):
    config = SACConfig().environment(Film, env_config={"frame": frame})
    expected = re.escape(f"an array {frame.shape} of {frame.dtype}, expected (height, width, 3 or 4) of uint8")
    with pytest.raises(UsageError, match=expected):
        video.check_rendering(config)


@pytest.mark.slow
def test_frames_per_second_are_those_of_the_environment():
    for env, fps in [("Hopper-v5", 125), ("InvertedPendulum-v5", 25)]:
        config = SACConfig().environment(env, env_config={"render_mode": "rgb_array"})
        assert video.check_rendering(config) == fps == gym.make(env).metadata["render_fps"]


@pytest.mark.slow
def test_a_closed_environment_does_not_blank_the_frames():
    closed = gym.make(DOUBLE_PENDULUM, render_mode="rgb_array")
    closed.reset()
    closed.render()
    closed.close()
    closed.unwrapped.itself = closed
    del closed  # it is in memory until the garbage collector finds it
    video.check_rendering(SACConfig().environment(DOUBLE_PENDULUM, env_config={"render_mode": "rgb_array"}))
    with contextlib.closing(gym.make(DOUBLE_PENDULUM, render_mode="rgb_array")) as env:
        env.reset(seed=0)
        env.render()
        gc.collect()
        assert np.ptp(env.render()) > 100
