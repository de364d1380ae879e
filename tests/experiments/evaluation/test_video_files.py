"""Videos: written while they are taken, small, as fast as the environment, of the first episodes only."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from interreplay.errors import UsageError
from interreplay.experiments.evaluation import video
from interreplay.experiments.evaluation.gif_file import GifFile
from interreplay.experiments.evaluation.play import PlaybackOptions, watch
from interreplay.experiments.flags.evaluate_flags import add_evaluate_flags, check_evaluate
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.rllib import SACConfig


def pictures(count, height=40, width=60):
    """A background of 64 colors with a red square that moves; the fifth is the fourth again."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 4, (height, width, 3), dtype=np.uint8) * 64
    found = []
    for i in range(count):
        frame = base.copy()
        frame[i : i + 10, i : i + 10] = (255, 0, 0)
        found.append(found[-1] if i == 4 else frame)
    return found


def read(path):
    """Pictures ``(count, height, width, 3)`` and milliseconds of each."""
    with Image.open(path) as film:
        frames, durations = [], []
        for i in range(film.n_frames):
            film.seek(i)
            frames.append(np.asarray(film.convert("RGB")))
            durations.append(film.info["duration"])
        return np.stack(frames), durations


@pytest.mark.parametrize("size", [(40, 60), (9, 7), (1, 1)])
def test_a_gif_shows_what_was_added(tmp_path, size):
    frames = pictures(20, *size)
    file = GifFile(tmp_path / "a.gif", 30)
    for frame in frames:
        file.add(frame)
    file.close()
    seen, durations = read(tmp_path / "a.gif")
    assert np.array_equal(seen, np.stack(frames))
    assert sum(durations) == pytest.approx(20 / 30 * 1_000, abs=10) and set(durations) == {30, 40}


def test_a_gif_is_on_disk_before_the_last_picture(tmp_path):
    file = GifFile(tmp_path / "a.gif", 30)
    sizes = []
    for frame in pictures(300, 100, 100):
        file.add(frame)
        sizes.append((tmp_path / "a.gif").stat().st_size)
    file.close()
    assert sizes[150] > sizes[50] > 8_192 and not any(isinstance(value, list) for value in vars(file).values())


def test_large_pictures_are_scaled(tmp_path):
    film = video.VideoFile(tmp_path / "a.gif")
    big = np.zeros((480, 640, 3), np.uint8)
    big[:, 320:] = 200
    film.add(big)
    film.add(big)
    film.close()
    (first, _), _ = read(tmp_path / "a.gif")
    assert first.shape == (240, 320, 3) and np.array_equal(first[:, [0, 319], 0], [[0, 200]] * 240)
    small = np.zeros((16, 8, 3), np.uint8)
    assert np.array_equal(video.scaled(small, 320), small)


@pytest.mark.parametrize(("fps", "shown", "milliseconds"), [(20, 12, 50), (50, 12, 20), (125, 4, 24)])
def test_a_gif_is_as_fast_as_the_environment(tmp_path, fps, shown, milliseconds):
    film = video.VideoFile(tmp_path / "a.gif")
    film.fps = fps
    for frame in pictures(12):
        if film.wanted():
            film.add(frame)
    film.close()
    frames, durations = read(tmp_path / "a.gif")
    assert len(frames) == shown and sum(durations) == pytest.approx(shown * milliseconds, abs=10)


def test_only_the_first_episodes_are_drawn(tmp_path):
    film = video.VideoFile(tmp_path / "a.gif", episodes=2)
    drawn = []
    for episode in range(4):
        for frame in pictures(5):
            if film.wanted():
                film.add(frame)
                drawn.append(episode)
        film.end_episode()
    film.close()
    assert drawn == [0] * 5 + [1] * 5 and film.told().endswith("a.gif (10 frames of 2 episodes)")


def test_a_video_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    film = video.VideoFile(tmp_path / "a.gif")
    (tmp_path / "a.gif").mkdir()
    with pytest.raises(UsageError, match=r"a\.gif cannot be written: Is a directory"):
        film.add(pictures(1)[0])


@pytest.mark.parametrize(("env", "fps"), [("Hopper-v5", 125), ("InvertedPendulum-v5", 25)])
def test_the_environment_says_how_fast_it_is(env, fps):
    config = SACConfig().environment(env, env_config={"render_mode": "rgb_array"})
    assert video.check_drawing(config) == fps == gym.make(env).metadata["render_fps"]


@pytest.mark.slow
def test_three_of_ten_episodes_are_filmed(tmp_path):
    config = SACConfig().environment("InvertedPendulum-v5").replay("Uniform", capacity=100)
    algorithm = config.training(hiddens=(8,), train_batch_size_per_learner=8).build_algo()
    algorithm.save_to_path(tmp_path / "checkpoint_000001")
    algorithm.stop()
    seen = watch(tmp_path, PlaybackOptions(episodes=5, seed=0, video=tmp_path / "a.gif"))
    steps = sum(episode.length for episode in seen.episodes[:3])
    assert len(seen.episodes) == 5 and f"({steps} frames of 3 episodes)" in seen.video
    frames, durations = read(tmp_path / "a.gif")
    assert len(frames) == steps and sum(durations) == pytest.approx(steps * 40, abs=10)
    one = watch(tmp_path, PlaybackOptions(episodes=2, seed=0, video=tmp_path / "b.gif", video_episodes=1))
    assert f"({seen.episodes[0].length} frames of 1 episode)" in one.video


@pytest.mark.parametrize(("words", "named"), [("--video_episodes 2", "--video_episodes 2 needs a video")])
def test_a_number_of_episodes_without_a_video_is_refused(tmp_path, words, named):
    parser = OneLineParser(allow_abbrev=False)
    add_evaluate_flags(parser)
    with pytest.raises(UsageError, match=named):
        check_evaluate(parser.parse_args([str(tmp_path), *words.split()]))
