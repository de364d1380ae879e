"""Invalid input ends with exit code 2 and one line, and writes nothing: every case of the table."""

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.experiments.commands import actor_learner, evaluate, lcer, main, run_agent, smoketest, study, train
from interreplay.experiments.report import report
from interreplay.experiments.rllib_command import main as rllib
from tests.experiments.commands.bad_input import FILES, TABLE
from tests.experiments.commands.command_lines import code_of

ROOT = Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("submit_of_the_table", ROOT / "cluster_deployment/submit.py")
submit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(submit)
MAINS = {
    "custom_training.py": train.main,
    "run_agent.py": run_agent.main,
    "main.py": actor_learner.main,
    "train.py": lcer.main,
    "cluster_run.py": study.main,
    "enjoy.py": evaluate.main,
    "rllib": rllib.main,
    "interreplay report": report.main,
    "submit.py": submit.main,
    "smoketest.py": smoketest.main,
    "interreplay": main.main,
}
AS_A_USER = [
    (["custom_training.py"], "--env no_such_module:Env-v0"),
    (["run_agent.py"], "configs=cartpole/dqn configs.hyper_params.bach_size=64"),
    (["-m", "interreplay.experiments.rllib_command.main"], "train --run PPO --env CartPole-v1 --num_cpus 2"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    # The Ray of another test module may have more CPUs than a command would have, which would then train.
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("program", TABLE)
def test_bad_input_is_one_line_and_exit_code_2(program, folder, monkeypatch, capsys):
    def no_ray(*arguments: object, **options: object) -> None:
        raise AssertionError("Ray was started before the line was refused")

    wrong = []
    for line, *pieces in TABLE[program]:
        # Commands that play a checkpoint start Ray before they look for it.
        playing = "enjoy" in program or "evaluate" in line
        monkeypatch.setattr("ray.init", (lambda **options: None) if playing else no_ray)
        monkeypatch.setattr(sys, "argv", [program])
        code = code_of(MAINS[program], shlex.split(line))
        out, err = capsys.readouterr()
        found = (code, out, err.count("\n"), "error: " in err, contents(folder) == FILES)
        if found != (2, "", 1, True, True) or not all(piece in err for piece in pieces):
            wrong.append((line, pieces, found, err))
    assert wrong == []
    assert {path.name for path in folder.iterdir()} == {name.split("/")[0] for name in FILES}


@pytest.mark.slow
def test_the_script_prints_the_same_line(folder):
    for program, line in AS_A_USER:
        words = [str(ROOT / program[0]) if program[0].endswith(".py") else program[0], *program[1:], *line.split()]
        done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert "error: " in done.stderr and contents(folder) == FILES


def test_lists_and_counts_do_nothing_else(folder, monkeypatch, capsys):
    monkeypatch.setattr("ray.init", lambda **options: pytest.fail("Ray was started"))
    for command, line, piece in (
        (study.main, "--list-presets --buffers Uniform", "nmer-paper"),
        (study.main, "study.yaml --list-buffers", "Attentive"),
        (train.main, "--list_presets", "nmer-paper"),
        (study.main, "study.yaml --count", "2\n"),
        (study.main, "search.yaml --count", "2\n"),
        (study.main, "study.yaml --list_presets False --count", "2\n"),
    ):
        assert command(line.split()) == 0
        out, err = capsys.readouterr()
        assert piece in out and err == ""
    assert contents(folder) == FILES
