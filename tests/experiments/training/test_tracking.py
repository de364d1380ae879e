"""Videos in TensorBoard, runs in Weights & Biases (offline) and MLflow (on disk)."""

import io
import json
import os

import numpy as np
import pytest

from custom_training import main
from interreplay.errors import UsageError
from interreplay.experiments.evaluation.video import MAX_EVALUATION_FRAMES, EvaluationVideo
from interreplay.experiments.training.result_log import RunLog
from interreplay.experiments.training.trackers import trackers
from tests.experiments.commands.command_lines import rejects, the_run
from tests.rllib.small_runs import config

pytestmark = pytest.mark.usefixtures("cluster")

LINE = (
    "--env InvertedPendulum-v5 --total_env_steps 300 --steps_per_iteration 100 --learning_starts 60 --hiddens 8,8"
    " --train_batch_size 16 --buffer_size 500 --evaluation_num_episodes 2 --quiet"
).split()


def events(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.IMAGES: 0})
    read.Reload()
    return read


@pytest.mark.slow
def test_videos_of_evaluations_are_in_tensorboard(tmp_path, capsys):
    from PIL import Image

    line = [*LINE, "--video_to_tensorboard", "--evaluation_interval", "2", "--local_dir", str(tmp_path)]
    assert main([*line, "--total_env_steps", "400"]) == 0
    assert capsys.readouterr().err == ""
    films = events(the_run(tmp_path)).Images("evaluation")
    assert [film.step for film in films] == [200, 400]
    lengths = [json.loads(text) for text in (the_run(tmp_path) / "result.json").read_text().splitlines()]
    longest = max(row["evaluation"]["env_runners"]["episode_len_max"] for row in lengths if "evaluation" in row)
    for film in films:
        with Image.open(io.BytesIO(film.encoded_image_string)) as frames:
            assert frames.size == (240, 240) and 1 < frames.n_frames <= longest
    # A resumed run may omit them, and pictures are not in checkpoints.
    words = ["--resume", str(the_run(tmp_path)), "--total_env_steps", "500", "--video_to_tensorboard", "False"]
    assert main(words) == 0


@pytest.mark.slow
def test_a_video_shows_the_first_episode_up_to_a_limit():
    film = EvaluationVideo(config("InvertedPendulum-v5"))
    for i in range(MAX_EVALUATION_FRAMES + 50):
        film._add(np.full((480, 480, 3), i % 256, dtype=np.uint8), "first")
        assert len(film._frames) <= MAX_EVALUATION_FRAMES, "others are not kept in memory"
    film._add(np.zeros((480, 480, 3), dtype=np.uint8), "second")
    frames = film.take()
    assert len(frames) == (MAX_EVALUATION_FRAMES + 50) / 2 and frames[0].shape == (240, 240, 3)
    assert [frame[0, 0, 0] for frame in frames[:3]] == [0, 2, 4]
    assert film.take() == []
    film._add(np.zeros((100, 50, 3), dtype=np.uint8), "third")
    assert [frame.shape for frame in film.take()] == [(100, 50, 3)]


@pytest.mark.slow
def test_runs_in_weights_and_biases(tmp_path, monkeypatch, capsys):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert main([*LINE, "--wandb", "a-project", "--local_dir", str(tmp_path)]) == 0
    folder = the_run(tmp_path)
    out = capsys.readouterr().out
    assert "stopped" not in out
    assert f"the run is in {folder}/wandb; upload it with: wandb sync {folder}/wandb/offline-run-" in out
    (record,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    assert record.name == f"run-{folder.name}.wandb"
    content = record.read_bytes()
    assert b"a-project" in content and b"InvertedPendulum-v5" in content
    assert content.count(b"replay_buffer/td_error_mean") >= 3, "every result is there"


@pytest.mark.slow
def test_runs_in_mlflow(tmp_path, capsys):
    mlflow = pytest.importorskip("mlflow")
    place = tmp_path / "runs"
    assert main([*LINE, "--mlflow", f"file://{place}/an experiment", "--local_dir", str(tmp_path / "results")]) == 0
    assert "stopped" not in capsys.readouterr().out
    client = mlflow.tracking.MlflowClient(f"file://{place}")
    experiment = client.get_experiment_by_name("an experiment")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == the_run(tmp_path / "results").name
    assert run.data.params["buffer"] == "Uniform" and run.data.params["tau"] == "0.02"
    history = client.get_metric_history(run.info.run_id, "replay_buffer/td_error_mean")
    assert [point.step for point in history] == [100, 200, 300]


class Broken:
    """A tracker whose service goes away in one of its methods."""

    def __init__(self, when):
        self.when = when
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append(name)
            if name == self.when:
                raise ConnectionError("no\nroute")

        return call


@pytest.mark.parametrize(
    ("when", "calls"), [("log_trial_start", 1), ("log_trial_result", 2), ("log_trial_end", 4), ("never", 5)]
)
def test_a_failed_tracker_is_removed_and_the_run_continues(when, calls, tmp_path):
    tracker, output = Broken(when), []
    log = RunLog(tmp_path, {}, trackers=[tracker], notify=output.append)
    for i in (1, 2):
        log.write({"training_iteration": i, "a": 1}, 100 * i)
    log.close()
    assert len(tracker.calls) == calls
    assert output == ([] if when == "never" else ["Broken stopped, the run continues without it: no route"])
    assert len((tmp_path / "result.json").read_text().splitlines()) == 2


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_missing_package_is_reported_with_its_installation(package, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("interreplay.experiments.training.trackers.importlib.util.find_spec", lambda name: None)
    words = [*LINE, f"--{package}", "a/b", "--local_dir", str(tmp_path)]
    rejects(capsys, main, words, f"--{package} a/b needs {package}: pip install 'interreplay[{package}]'")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_unreachable_server_is_reported(tmp_path):
    pytest.importorskip("mlflow")
    with pytest.raises(UsageError, match="names no experiment"):
        trackers(None, "runs/")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--mlflow .*; expected \[URI/\]EXPERIMENT"):
        trackers(None, f"{tmp_path}/file/x")
    with pytest.raises(UsageError, match=r"^--mlflow file:/proc/x is not available \(.*No such file or directory"):
        trackers(None, "file:/proc/x")


@pytest.mark.slow
def test_a_missing_key_is_reported_with_a_solution(monkeypatch, tmp_path):
    pytest.importorskip("wandb")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="^--wandb p is not available .*WANDB_API_KEY; .*WANDB_MODE=offline$"):
        trackers("p", None)
    assert trackers(None, None) == []


def test_an_environment_without_images_is_rejected_before_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", lambda self: None)
    words = [*LINE, "--video_to_tensorboard", "--local_dir", str(tmp_path)]
    rejects(capsys, main, words, "InvertedPendulum-v5 cannot be filmed")
    assert not list(tmp_path.iterdir())
