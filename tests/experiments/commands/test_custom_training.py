"""The training command: output, files, ends of runs, and resumed runs."""

import contextlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

import custom_training
from interreplay.runs.results.reader import NAMES
from interreplay.runs.run_folder import STEPS
from tests.experiments.commands.command_lines import PATIENCE, checkpoints, rejects, rows, start, steps, the_run

ROOT = Path(__file__).resolve().parents[3]
TINY = "--learning_starts 60 --train_batch_size 32 --buffer_size 2000 --hiddens 16 --evaluation_num_episodes 1".split()
SHORT = ["--steps_per_iteration", "100", "--checkpoint_freq", "1", *TINY]
EVALUATION_RETURN = NAMES["evaluation"][0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Make a complete run of 300 steps with the flags of the original work."""
    local_dir = tmp_path_factory.mktemp("finished")
    flags = "--trainer SAC --env Pendulum-v0 --custom_replay_buffer True --knn_baseline --kneighbors 5".split()
    printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed[0]), contextlib.redirect_stderr(printed[1]):
        code = custom_training.main([*flags, *SHORT, "--total-env-steps", "300", "--local_dir", str(local_dir)])
    assert code == 0, printed[1].getvalue()
    return the_run(local_dir), *(each.getvalue() for each in printed)


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished[0], tmp_path / "results" / finished[0].name))


def test_output_of_a_run(finished):
    folder, out, err = finished
    lines = out.splitlines()
    assert err == ""
    assert lines[0] == "Pendulum-v0 is retired; using Pendulum-v1"
    assert lines[1] == "defaults for this environment: --actor_lr 0.001 --critic_lr 0.001 --alpha_lr 0.001 --tau 0.02"
    assert lines[2] == "SAC with NMER(k=5) on Pendulum-v1, seed 0"
    assert re.fullmatch(r"replay buffer of 2,000 rows: [\d.e-]+ GB when full, [\d.]+ GB free", lines[3])
    assert lines[4] == "random actions until 60 steps"
    assert [line.split(" steps ")[0].strip() for line in lines[5:8]] == [f"{n} / 300" for n in (100, 200, 300)]
    assert re.match(r"300 steps, \d+ s \(\d+ steps/s\), return -[\d,.]+, evaluation return -[\d,.]+ \(best -", lines[8])
    best = next(folder.glob("best_checkpoint_*")).name
    assert lines[9] == f"results in {folder}, newest checkpoint checkpoint_00000300, best {best}"
    assert len(lines) == 10


def test_what_a_run_leaves_on_disk(finished):
    folder, *_ = finished
    assert re.fullmatch(r"SAC_Pendulum-v1_NMER_s0_\d{8}-\d{6}", folder.name)
    assert steps(folder) == [100, 200, 300]
    columns = rows(folder)[-1]
    assert float(columns[EVALUATION_RETURN]) < 0
    assert any(name.startswith("learners/") for name in columns)
    lines = [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]
    assert [line[STEPS] for line in lines] == [100, 200, 300]
    params = json.loads((folder / "params.json").read_text())
    expected = {"trainer": "SAC", "env": "Pendulum-v1", "buffer": "NMER", "buffer_args": {"k": 5}, "gamma": 0.99}
    assert expected.items() <= params.items()
    assert params["versions"]["ray"] == importlib.metadata.version("ray")
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1
    assert checkpoints(folder) == ["checkpoint_00000200", "checkpoint_00000300"]
    assert [path.name for path in folder.glob(".*")] == [".lock"]
    assert not (folder / "params.pkl").exists()
    assert not (folder / "error.txt").exists()


def tree(folder: Path) -> dict[str, int]:
    """Return the files of a folder and when they were changed; filelock before 4.2 also touches its own."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_a_rejected_resume_changes_nothing(copy, capsys):
    before = tree(copy)
    for flags, parts in (
        (["--env", "Hopper-v5"], ["env Pendulum-v1, not Hopper-v5"]),
        (["--buffer", "Uniform"], ["buffer NMER, not Uniform"]),
        ([], ["complete at 300 steps", "--total_env_steps"]),
    ):
        rejects(capsys, custom_training.main, ["--resume", str(copy), *flags], *parts)
        assert tree(copy) == before


def test_a_run_without_a_usable_checkpoint_changes_nothing(copy, capsys):
    for checkpoint in copy.glob("*checkpoint_*"):
        for file in checkpoint.rglob("*.json"):
            file.write_text("{")
    before = tree(copy)
    words = ["--resume", str(copy), "--total_env_steps", "400"]
    rejects(capsys, custom_training.main, words, "no usable checkpoint", "checkpoint_00000300", "checkpoint_00000200")
    assert tree(copy) == before


@pytest.mark.slow
def test_signals_save_and_name_the_command_that_resumes(tmp_path):
    """A terminal sends Ctrl-C to the whole group of processes, whose sampling processes survive it."""
    flags = ["--env", "Pendulum-v1", "--knn_baseline", "--num_workers", 1, "--total_env_steps", 10**6, *SHORT]
    process = start(*flags, "--local_dir", tmp_path, start_new_session=True)
    try:
        while " steps/s " not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGUSR1)  # saves, and continues until the next signal
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    stopping = "stopping after the current update, then saving; Ctrl-C again stops at once"
    assert sorted(line for line in err.splitlines() if line) == ["saving, then continuing", stopping]
    folder = the_run(tmp_path)
    command = f"python {ROOT / 'custom_training.py'} --resume {folder}"
    assert out.splitlines()[-1] == f"stopped early; continue with: {command}"
    at = int(checkpoints(folder)[-1].split("_")[1])
    assert steps(folder)[-1] == at // 100 * 100  # the checkpoint contains the steps since then
    assert custom_training.main(["--resume", str(folder), "--total_env_steps", str(at + 50), "--quiet"]) == 0
    assert steps(folder)[-1] >= at + 50
