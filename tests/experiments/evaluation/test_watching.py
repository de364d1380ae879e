"""Watching a trained policy: the same episodes for one seed, videos with a frame per step, datasets, one clear line."""

from __future__ import annotations

import importlib
import os
import shutil
import sys

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.sac import SACConfig as StockConfig

import enjoy
from interreplay.environments import rendering
from interreplay.errors import UsageError
from interreplay.experiments.commands import main as dispatcher
from interreplay.experiments.evaluation import video
from interreplay.experiments.evaluation.play import PlaybackOptions, watch
from interreplay.experiments.rllib_command import main
from interreplay.runs.checkpoints.search import find
from tests.rllib.small_runs import config

pytestmark = pytest.mark.usefixtures("cluster")

ENV = "InvertedDoublePendulum-v5"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint of ours."""
    folder = tmp_path_factory.mktemp("ours") / "checkpoint_000001"
    algorithm = config(ENV).build_algo()
    algorithm.train()
    algorithm.save_to_path(folder)
    algorithm.stop()
    return folder


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """A checkpoint of RLlib's own SAC, whose configuration has a seed."""
    folder = tmp_path_factory.mktemp("stock") / "checkpoint_000001"
    made = StockConfig().environment(ENV).env_runners(num_env_runners=0).debugging(seed=3)
    algorithm = made.build_algo()
    algorithm.save_to_path(folder)
    algorithm.stop()
    return folder


def trusted_options(*arguments, **options):
    """Options that also load the pickles of RLlib's own algorithms."""
    return PlaybackOptions(*arguments, trusted=True, **options)


@pytest.fixture(params=["trained", pytest.param("stock", marks=pytest.mark.slow)])
def checkpoint(request):
    return request.getfixturevalue(request.param)


def test_episodes_until_enough(checkpoint):
    assert find(checkpoint.parent) == find(checkpoint) == [checkpoint]
    told = []
    seen = watch(checkpoint, trusted_options("SAC", episodes=3), told.append)
    assert seen.episodes == told and len(told) == 3
    assert all(0 < e.ret <= 10 * e.length for e in told), "10 for every step upright, less what speed costs"
    assert sum(e.length for e in watch(checkpoint, trusted_options(steps=20)).episodes) >= 20
    assert len(watch(checkpoint, trusted_options(steps=10_000, episodes=1)).episodes) == 1


def test_a_seed_says_what_is_played(checkpoint):
    first, again, other = (watch(checkpoint, trusted_options(episodes=3, seed=s)).episodes for s in (5, 5, 6))
    assert first == again
    assert first[1:] == other[:2], "episode i begins from seed + i"
    assert len({e.ret for e in watch(checkpoint, trusted_options(episodes=3)).episodes}) == 3, "they differ without one"


def test_the_last_line(trained):
    seen = watch(trained, PlaybackOptions(episodes=4, seed=0))
    returns, lengths = np.array([[e.ret, e.length] for e in seen.episodes]).T
    expected = (
        f"return {returns.mean():,.1f} ± {returns.std():,.1f}, length {lengths.mean():.0f} ± {lengths.std():.0f} steps"
    )
    assert seen.summary() == f"4 episodes: {expected}"


def test_a_video_has_a_frame_for_every_step(checkpoint, tmp_path):
    from PIL import Image

    seen = watch(checkpoint, trusted_options(episodes=2, seed=1, video=tmp_path / "a.gif"))
    steps = sum(e.length for e in seen.episodes)
    with Image.open(tmp_path / "a.gif") as film:
        assert (film.n_frames, film.size) == (steps, (320, 320))
        frames = []
        for i in (0, steps - 1):
            film.seek(i)
            frames.append(np.asarray(film.convert("RGB"), dtype=float))
    assert all(np.ptp(frame) > 100 for frame in frames), "there is something to see"
    assert np.abs(frames[0] - frames[1]).max() > 30, "and it moves"
    assert f"({steps} frames of 2 episodes)" in seen.summary()


@pytest.mark.slow
def test_an_mp4_has_a_frame_for_every_step(trained, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    import imageio.v3 as imageio

    seen = watch(trained, PlaybackOptions(episodes=2, seed=1, video=tmp_path / "a.mp4"))
    assert sum(1 for _ in imageio.imiter(tmp_path / "a.mp4")) == sum(e.length for e in seen.episodes)


def test_a_gif_that_is_too_long_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "MOST_FRAMES", 3)
    film = video.VideoFile(tmp_path / "a.gif")
    for i in range(5):
        if film.wanted():
            film.add(np.full((8, 8, 3), 50 * i, dtype=np.uint8))
    film.end_episode()
    film.close()
    assert (
        film.told() == f"{tmp_path / 'a.gif'} (3 frames of 1 episode, the most that a GIF gets; .mp4 has no such bound)"
    )


def test_a_dataset_of_nested_observations(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    algorithm = config("tests.rllib.spaces_envs:NestedLine-v0", "Uniform").build_algo()
    algorithm.save_to_path(tmp_path / "checkpoint_000001")
    space = algorithm.learner.single_module.observation_space
    algorithm.stop()
    watch(tmp_path / "checkpoint_000001", PlaybackOptions(episodes=1, dataset="line/test-v0"))
    (episode,) = minari.load_dataset("line/test-v0").iterate_episodes()
    seen = episode.observations
    assert seen["arm"]["pose"].shape == (26, 2) and seen["rest"][0].shape == (26, 2)
    first = {"arm": {k: v[0] for k, v in seen["arm"].items()}, "rest": tuple(part[0] for part in seen["rest"])}
    assert space.contains(first)
    assert np.allclose(seen["arm"]["pose"], seen["rest"][1])


def test_a_dataset_holds_what_the_environment_was_given(checkpoint, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    seen = watch(checkpoint, trusted_options(episodes=2, seed=1, dataset="pendulum/test-v0"))
    dataset = minari.load_dataset("pendulum/test-v0")
    assert f"{dataset.total_episodes} episodes, {dataset.total_steps} steps" in seen.summary()
    for i, episode in enumerate(dataset.iterate_episodes()):
        assert (len(episode.actions), episode.rewards.sum()) == (
            seen.episodes[i].length,
            pytest.approx(seen.episodes[i].ret),
        )
        assert episode.terminations[-1] and not episode.terminations[:-1].any() and not episode.truncations.any()
        env = gym.make(ENV)
        obs, _ = env.reset(seed=1 + i)
        for step, action in enumerate(episode.actions):
            assert np.allclose(episode.observations[step], obs, atol=1e-5)
            assert env.action_space.contains(action.astype(np.float32)) and np.abs(episode.actions).max() <= 1
            obs = env.step(action)[0]
    with pytest.raises(UsageError, match="there is such a dataset already"):
        watch(checkpoint, trusted_options(episodes=1, dataset="pendulum/test-v0"))
    with pytest.raises(UsageError, match="'no name' is not a valid dataset name"):
        watch(checkpoint, trusted_options(episodes=1, dataset="no name"))


@pytest.mark.parametrize(
    "call", [enjoy.main, pytest.param(lambda words: dispatcher.main(["evaluate", *words]), marks=pytest.mark.slow)]
)
def test_from_the_shell(call, trained, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["enjoy.py"])
    assert call([str(trained), "--episodes", "2", "--seed", "0", "--video", str(tmp_path / "a.gif")]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == "" and len(lines) == 3
    assert lines[0].startswith("episode 1: return ") and lines[2].startswith("2 episodes: return ")
    assert (tmp_path / "a.gif").exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--video", "a.avi"], ["a.avi", ".gif or .mp4"]),
        (["--video", "none/a.gif"], ["there is no folder none"]),
        (["--render"], ["--render needs a screen", "--video FILE.gif"]),
        (["--render", "--video", "a.gif"], ["--render and --video", "give one"]),
        (["--run", "PPO"], ["made by SAC, not PPO"]),
    ],
)
def test_bad_input(words, parts, trained, capsys, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert enjoy.main([str(trained), *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and all(part in error for part in parts)


def test_a_video_that_cannot_be_written_is_refused_before_anything_is_played(trained, capsys, tmp_path):
    (tmp_path / "a.gif").mkdir()
    for path, part in (("/proc/a.gif", "/proc cannot be written to"), (tmp_path / "a.gif", "is a folder")):
        assert enjoy.main([str(trained), "--video", str(path)]) == 2
        out, error = capsys.readouterr()
        assert out == "" and error.count("\n") == 1 and part in error


def test_of_several_runs_the_newest_is_taken_and_named(trained, capsys, tmp_path):
    for i, name in enumerate(("b", "a", "c")):
        there = shutil.copytree(trained, tmp_path / name / "checkpoint_00000075")
        os.utime(there / "checkpoint.json", (i, 1_000_000 + (i == 1)))
    shutil.copytree(trained, tmp_path / "a" / "checkpoint_00000090.set_aside")
    assert enjoy.main([str(tmp_path), "--episodes", "1", "--seed", "0"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path / 'a' / 'checkpoint_00000075'}, the newest of 3 checkpoints"


@pytest.mark.parametrize(
    ("content", "part"),
    [(None, "there is no module 'own_envs' to import"), ("1 / 0", "cannot be imported: division by zero")]
    + [("import nothing_like_it", "no module 'nothing_like_it'"), ("", "is not registered with Gymnasium")],
)
def test_an_environment_that_cannot_be_imported_is_one_line(content, part, tmp_path, capsys, monkeypatch):
    register = "import gymnasium as gym\ngym.register('Own-v0', 'gymnasium.envs.classic_control:PendulumEnv', 50)\n"
    (tmp_path / "own_envs.py").write_text(register)
    monkeypatch.syspath_prepend(tmp_path)
    algorithm = config("own_envs:Own-v0").build_algo()
    algorithm.save_to_path(tmp_path / "checkpoint_000001")
    algorithm.stop()
    monkeypatch.delitem(sys.modules, "own_envs")
    monkeypatch.delitem(gym.registry, "Own-v0")
    (tmp_path / "own_envs.py").unlink()
    if content is not None:
        (tmp_path / "own_envs.py").write_text(content + "\n" * 9)
    importlib.invalidate_caches()
    assert enjoy.main([str(tmp_path / "checkpoint_000001"), "--episodes", "1"]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and part in error and "'own_envs:Own-v0'" in error


@pytest.mark.parametrize("words", [["x", "--seeds", "3"], ["x", "--episodes", "0"], [], ["x", "--seed", "nan"]])
def test_flags_that_are_wrong_are_one_line(words, capsys):
    for call in (enjoy.main, lambda line: main.main(["evaluate", *line])):
        with pytest.raises(SystemExit) as caught:
            call(words)
        error = capsys.readouterr().err
        assert caught.value.code == 2 and error.count("\n") == 1 and "error: " in error


def test_what_is_not_installed_is_said_with_how_to_install_it(trained, monkeypatch, tmp_path):
    for package in ("minari", "imageio_ffmpeg"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"pip install 'interreplay\[minari\]'"):
        watch(trained, PlaybackOptions(dataset="a/b-v0"))
    with pytest.raises(UsageError, match=r"pip install 'interreplay\[video\]'"):
        watch(trained, PlaybackOptions(video=tmp_path / "a.mp4"))


def test_what_cannot_be_drawn_is_one_line(trained, monkeypatch, tmp_path):
    def broken(self):
        raise RuntimeError("no\nlibGL")

    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", broken)
    with pytest.raises(
        UsageError, match=r"InvertedDoublePendulum-v5 cannot be drawn here \(no.libGL\); MuJoCo needs EGL or OSMesa"
    ):
        watch(trained, PlaybackOptions(video=tmp_path / "a.gif"))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_window_is_the_environments_own(trained, monkeypatch):
    shown = []
    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", lambda self: shown.append(self.render_mode))
    seen = watch(trained, PlaybackOptions(episodes=1, window=True))
    assert set(shown) == {"human"} and len(shown) >= seen.episodes[0].length


def test_cameras_are_one_and_the_same_in_every_copy_and_blind_in_checkpoints():
    import copy
    import pickle

    camera = video.Camera(print)
    assert copy.deepcopy(camera) is camera
    assert pickle.loads(pickle.dumps(camera)).sink is None


@pytest.mark.parametrize(("works", "expected"), [({"egl", "osmesa"}, "egl"), ({"osmesa"}, "osmesa"), (set(), "egl")])
def test_the_backend_that_works_is_taken(works, expected, monkeypatch):
    monkeypatch.setattr(rendering.os, "environ", {})
    monkeypatch.setattr(rendering.sys, "platform", "linux")
    monkeypatch.setattr(rendering.ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr(rendering, "_draws", works.__contains__)
    assert rendering.choose_working_backend() == expected


@pytest.mark.slow
def test_the_rllib_command_evaluates_alike(trained, capsys, monkeypatch):
    monkeypatch.setattr("interreplay.experiments.evaluation.evaluate.start_ray", lambda cpus: None)
    assert main.main(["evaluate", str(trained), "--run", "SAC", "--steps", "30", "--seed", "2"]) == 0
    ours = capsys.readouterr().out
    assert enjoy.main([str(trained), "--steps", "30", "--seed", "2"]) == 0
    assert capsys.readouterr().out == ours
