"""Playing trained policies: seeds, summaries, videos, datasets, and error messages."""

import copy
import importlib
import os
import pickle
import shutil
import sys
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.sac import SACConfig as StockConfig

import enjoy
from interreplay.errors import CheckpointError, UsageError
from interreplay.experiments.evaluation import video
from interreplay.experiments.evaluation.play import Recorder, _nested, playback_config, read_config, watch
from interreplay.rllib import A3CConfig
from interreplay.runs.checkpoints import find
from tests.experiments.commands.command_lines import rejects
from tests.rllib import failing_envs
from tests.rllib.small_runs import config
from tests.rllib.spaces_envs import KINDS

pytestmark = pytest.mark.usefixtures("cluster")

ENV = "InvertedDoublePendulum-v5"


def test_recorded_observations_are_copies():
    recorder = Recorder(failing_envs.OneArray())
    recorder.reset()
    for _ in range(3):
        recorder.step(np.zeros(1))
    assert np.stack(recorder._observations)[:, 1].tolist() == [0, 1, 2, 3]


def test_runs_of_other_machines_and_modes_are_played_here():
    made = A3CConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=4)
    made.env_runners(gym_env_vectorize_mode="async").evaluation(evaluation_num_env_runners=1)
    made.evaluation(evaluation_interval=1, evaluation_parallel_to_training=True).learners(num_gpus_per_learner=1)
    found = playback_config(made)
    found.validate()
    assert (found.gym_env_vectorize_mode, found.num_gpus_per_learner) == ("sync", int(torch.cuda.is_available()))


def test_playing_compiles_no_updates():
    assert not playback_config(config("Pendulum-v1").training(torch_compile=True)).torch_compile


def test_arguments_of_the_environment_that_are_not_stored_are_reported(tmp_path):
    made = config("Pendulum-v1").environment("Pendulum-v1", env_config={"g": Fraction(10)})
    with pytest.raises(CheckpointError, match="does not store env_config, which is not plain data"):
        read_config(saved(made, tmp_path / "c"))


def test_damaged_checkpoints_of_rllibs_own_algorithms_are_rejected(tmp_path):
    (tmp_path / "rllib_checkpoint.json").write_text("{}")
    for trusted, message in ((False, "--trust_checkpoint loads it"), (True, "cannot be read")):
        with pytest.raises(CheckpointError, match=message):
            watch(tmp_path, episodes=1, trust_checkpoint=trusted)


def saved(made, folder, train=False):
    algorithm = made.build_algo()
    if train:
        algorithm.train()
    algorithm.save_to_path(folder)
    algorithm.stop()
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a checkpoint of this package."""
    return saved(config(ENV), tmp_path_factory.mktemp("ours") / "checkpoint_000001", train=True)


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """Return a checkpoint of RLlib's own SAC with a seed in its configuration."""
    made = StockConfig().environment(ENV).env_runners(num_env_runners=0).debugging(seed=3)
    return saved(made, tmp_path_factory.mktemp("stock") / "checkpoint_000001")


@pytest.fixture(params=["trained", pytest.param("stock", marks=pytest.mark.slow)])
def checkpoint(request):
    return request.getfixturevalue(request.param)


def play(checkpoint, on_episode=id, **options):
    """Play a checkpoint; loading the pickles of RLlib's own algorithms is allowed."""
    return watch(checkpoint, on_episode, trust_checkpoint=True, **options)


def test_episodes_are_played_until_a_limit_is_reached(checkpoint):
    assert find(checkpoint.parent) == find(checkpoint) == [checkpoint]
    reported = []
    result = play(checkpoint, reported.append, run="SAC", episodes=3)
    assert result.episodes == reported and len(reported) == 3
    assert all(0 < e.ret <= 10 * e.length for e in reported), "the reward is at most 10 per step"
    assert sum(e.length for e in play(checkpoint, steps=20).episodes) >= 20
    assert len(play(checkpoint, steps=10_000, episodes=1).episodes) == 1


def test_a_seed_determines_the_episodes(checkpoint):
    first, again, other = (play(checkpoint, episodes=3, seed=seed).episodes for seed in (5, 5, 6))
    assert first == again
    assert first[1:] == other[:2], "episode i is reset with seed + i"
    assert len({e.ret for e in play(checkpoint, episodes=3).episodes}) == 3, "episodes differ without a seed"


def test_the_summary_has_means_and_standard_deviations(trained):
    result = play(trained, episodes=4, seed=0)
    returns, lengths = np.array([[e.ret, e.length] for e in result.episodes]).T
    expected = f"return {returns.mean():,.1f} ± {returns.std():,.1f}, length {lengths.mean():.0f} ± {lengths.std():.0f}"
    assert result.summary() == f"4 episodes: {expected} steps"


@pytest.mark.slow
def test_an_mp4_has_a_frame_for_every_step(trained, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    import imageio.v3 as imageio

    result = play(trained, episodes=2, seed=1, video=tmp_path / "a.mp4")
    assert sum(1 for _ in imageio.imiter(tmp_path / "a.mp4")) == sum(e.length for e in result.episodes)


def test_the_summary_reports_a_full_gif(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "MAX_GIF_FRAMES", 3)
    film = video.VideoFile(tmp_path / "a.gif")
    for i in range(5):
        if film.next_step_is_shown():
            film.add(np.full((8, 8, 3), 50 * i, dtype=np.uint8))
    film.end_episode()
    assert not film.next_step_is_shown()
    film.end_episode()
    film.close()
    assert film.summary().endswith("a.gif (3 frames of 1 episode, the maximum of a GIF; .mp4 has no maximum)")


def test_a_dataset_of_nested_observations(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    checkpoint = saved(config("tests.rllib.spaces_envs:NestedLine-v0"), tmp_path / "checkpoint_000001")
    play(checkpoint, episodes=1, record_data="line/test-v0")
    (episode,) = minari.load_dataset("line/test-v0").iterate_episodes()
    recorded = episode.observations
    assert recorded["arm"]["pose"].shape == (26, 2) and recorded["rest"][0].shape == (26, 2)
    first = {"arm": {k: v[0] for k, v in recorded["arm"].items()}, "rest": tuple(part[0] for part in recorded["rest"])}
    assert KINDS["Nested"][0].contains(first)
    assert np.allclose(recorded["arm"]["pose"], recorded["rest"][1])


class Plain(gym.Wrapper):
    """Does not record the arguments of its constructor."""


def test_a_dataset_of_an_environment_that_minari_cannot_create_again(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    recorder = Recorder(Plain(gym.make("Pendulum-v1")))
    recorder.reset(seed=0)
    recorder.step(np.zeros(1, np.float32))
    recorder.write("pendulum/test-v0", "SAC")
    dataset = minari.load_dataset("pendulum/test-v0")
    assert dataset.total_steps == 1 and dataset.env_spec is None


def test_recorded_steps_have_the_dtype_of_their_space():
    space = gym.spaces.Dict({"image": gym.spaces.Box(0, 255, (2,), np.uint8)})
    recorded = _nested([{"image": np.array([1, 2])}, {"image": [3, 4]}], space)
    assert recorded["image"].dtype == np.uint8 and recorded["image"].tolist() == [[1, 2], [3, 4]]


def test_a_dataset_holds_the_steps_of_the_environment(checkpoint, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    result = play(checkpoint, episodes=2, seed=1, record_data="pendulum/test-v0")
    assert result.episodes == play(checkpoint, episodes=2, seed=1).episodes, "recording changes nothing"
    dataset = minari.load_dataset("pendulum/test-v0")
    assert f"{dataset.total_episodes} episodes, {dataset.total_steps} steps" in result.summary()
    assert dataset.total_episodes == 2
    assert dataset.recover_environment().spec.id == ENV
    for i, episode in enumerate(dataset.iterate_episodes()):
        assert len(episode.actions) == result.episodes[i].length
        assert episode.rewards.sum() == pytest.approx(result.episodes[i].ret)
        assert episode.terminations[-1] and not episode.terminations[:-1].any() and not episode.truncations.any()
        env = gym.make(ENV)
        obs, _ = env.reset(seed=1 + i)
        for step, action in enumerate(episode.actions):
            assert np.allclose(episode.observations[step], obs, atol=1e-5)
            assert env.action_space.contains(action.astype(np.float32))
            obs = env.step(action)[0]
    with pytest.raises(UsageError, match="already exists"):
        play(checkpoint, episodes=1, record_data="pendulum/test-v0")


def test_bad_requests_are_one_line_before_anything_is_played(trained, capsys, monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "a.gif").mkdir()
    for words, parts in [
        (["--video", "a.avi"], ["a.avi", ".gif or .mp4"]),
        (["--video", "none/a.gif"], ["none/a.gif cannot be written; give a file in a folder that exists"]),
        (["--video", "/proc/a.gif"], ["/proc"]),
        (["--video", str(tmp_path / "a.gif")], ["cannot be written; give a file in a folder that exists"]),
        (["--render"], ["--render", "screen", "--video FILE.gif"]),
        (["--render", "--video", "a.gif"], ["--render and --video", "give one"]),
        (["--run", "PPO"], ["made by SAC, not PPO"]),
    ]:
        rejects(capsys, enjoy.main, [str(trained), *words], *parts)


def test_the_newest_checkpoint_of_several_runs_is_played(trained, capsys, tmp_path):
    for i, name in enumerate(("b", "a", "c")):
        copied = shutil.copytree(trained, tmp_path / name / "checkpoint_00000075")
        os.utime(copied / "checkpoint.json", (i, 1_000_000 + (i == 1)))
    shutil.copytree(trained, tmp_path / "a" / "checkpoint_00000090.set_aside")
    assert enjoy.main([str(tmp_path), "--episodes", "1", "--seed", "0"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path / 'a' / 'checkpoint_00000075'}, the newest of 3 checkpoints"


def test_an_environment_that_cannot_be_imported_is_one_line(tmp_path, capsys, monkeypatch):
    register = "import gymnasium as gym\ngym.register('Own-v0', 'gymnasium.envs.classic_control:PendulumEnv', 50)\n"
    file = tmp_path / "own_envs.py"
    file.write_text(register)
    monkeypatch.syspath_prepend(tmp_path)
    checkpoint = saved(config("own_envs:Own-v0"), tmp_path / "checkpoint_000001")
    monkeypatch.delitem(gym.registry, "Own-v0")
    for content, part in [
        (None, "No module named 'own_envs'"),
        ("1 / 0", "cannot be imported (ZeroDivisionError: division by zero)"),
        ("import nothing_like_it", "No module named 'nothing_like_it'"),
        ("", "is not registered with Gymnasium"),
    ]:
        sys.modules.pop("own_envs", None)
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content + "\n" * 9)
        importlib.invalidate_caches()
        rejects(capsys, enjoy.main, [str(checkpoint), "--episodes", "1"], part, "'own_envs:Own-v0'")
    sys.modules.pop("own_envs", None)


def test_missing_packages_are_reported_with_the_command_that_installs_them(trained, monkeypatch, tmp_path):
    for package in ("minari", "imageio_ffmpeg"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"pip install 'interreplay\[minari\]'"):
        play(trained, record_data="a/b-v0")
    with pytest.raises(UsageError, match=r"pip install 'interreplay\[video\]'"):
        play(trained, video=tmp_path / "a.mp4")


@pytest.mark.slow
def test_a_rendering_error_is_reported_with_its_remedy(trained, monkeypatch, tmp_path):
    def broken(self):
        raise RuntimeError("no\nlibGL")

    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", broken)
    expected = r"cannot be rendered here \(RuntimeError: no libGL\); MuJoCo needs EGL or OSMesa"
    with pytest.raises(UsageError, match=f"InvertedDoublePendulum-v5 {expected}"):
        play(trained, video=tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_window_is_opened_by_the_environment(trained, monkeypatch):
    modes = []
    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", lambda self: modes.append(self.render_mode))
    result = play(trained, episodes=1, render=True)
    assert set(modes) == {"human"} and len(modes) >= result.episodes[0].length


def test_copies_share_a_camera_and_checkpoints_disable_it():
    camera = video.Camera(print)
    assert copy.deepcopy(camera) is camera
    assert pickle.loads(pickle.dumps(camera)).sink is None
