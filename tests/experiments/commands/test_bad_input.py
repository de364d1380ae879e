"""Bad input ends in exit code 2 and one line that says why, and leaves nothing behind: every case of the table."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.experiments.commands import actor_learner, evaluate, main, run_agent, smoketest, study, train
from interreplay.experiments.report import __main__ as report
from interreplay.experiments.rllib_command import main as rllib
from tests.experiments.commands.bad_input import FILES, TABLE

ROOT = Path(__file__).resolve().parents[3]
spec = importlib.util.spec_from_file_location("submit_of_the_table", ROOT / "cluster_deployment/submit.py")
submit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(submit)
MAINS = {
    "custom_training.py": train.main,
    "run_agent.py": run_agent.main,
    "main.py": actor_learner.main,
    "cluster_run.py": study.main,
    "enjoy.py": evaluate.main,
    "rllib": rllib.main,
    "interreplay report": report.main,
    "submit.py": submit.main,
    "smoketest.py": smoketest.main,
    "interreplay": main.main,
}
CASES = [(program, line, pieces) for program, lines in TABLE.items() for line, *pieces in lines]
AS_A_USER = [
    (["custom_training.py"], "--env no_such_module:Env-v0"),
    (["cluster_run.py"], ""),
    (["run_agent.py"], "configs=cartpole/dqn configs.hyper_params.bach_size=64"),
    (["-m", "interreplay.experiments.rllib_command.main"], "train --run PPO --env CartPole-v1 --num_cpus 2"),
    (["-m", "interreplay.analysis"], "none"),
    (["cluster_deployment/submit.py"], "single none.yaml"),
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
    # Another module's Ray in this process may have more CPUs than a command would have: it would train, not refuse.
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_table_holds_a_hundred_cases_each_once():
    assert len(CASES) == len({(program, line) for program, line, _ in CASES}) >= 100
    assert all(pieces and all(pieces) for _, _, pieces in CASES)


@pytest.mark.parametrize(("program", "line", "pieces"), CASES, ids=[f"{name} {line}" for name, line, _ in CASES])
def test_bad_input_is_one_line_and_exit_code_2(program, line, pieces, folder, monkeypatch, capsys):
    def no_ray(*arguments: object, **options: object) -> None:
        raise AssertionError("Ray was started before the line was refused")

    # Whether a folder holds a checkpoint is looked at by what plays, which starts Ray first.
    monkeypatch.setattr("ray.init", (lambda **options: None) if "enjoy" in program or "evaluate" in line else no_ray)
    monkeypatch.setattr(sys, "argv", [program])
    try:
        code = MAINS[program](shlex.split(line))
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "error: " in err
    for piece in pieces:
        assert piece in err
    assert contents(folder) == FILES
    assert {path.name for path in folder.iterdir()} == {name.split("/")[0] for name in FILES}


@pytest.mark.slow
@pytest.mark.parametrize(("program", "line"), AS_A_USER, ids=lambda value: str(value))
def test_a_user_meets_the_same_line(program, line, folder):
    words = [str(ROOT / program[0]) if program[0].endswith(".py") else program[0], *program[1:]]
    done = subprocess.run(
        [sys.executable, *words, *line.split()], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "error: " in done.stderr and contents(folder) == FILES


@pytest.mark.parametrize("line", ["--list-presets --buffers Uniform", "--list_presets", "study.yaml --list-buffers"])
def test_what_lists_does_nothing_else(line, folder, monkeypatch, capsys):
    monkeypatch.setattr("ray.init", lambda **options: pytest.fail("Ray was started"))
    for command in (study.main, train.main) if "study" not in line and "--buffers" not in line else (study.main,):
        assert command(line.split()) == 0
        out, err = capsys.readouterr()
        assert ("nmer-paper" if "presets" in line else "Attentive") in out and err == ""
    assert contents(folder) == FILES


def test_a_count_and_a_false_list_do_what_they_say(folder, capsys):
    assert study.main(["study.yaml", "--count"]) == 0
    assert capsys.readouterr().out == "2\n"
    assert study.main(["study.yaml", "--list_presets", "False", "--count"]) == 0
    assert capsys.readouterr().out == "2\n" and contents(folder) == FILES


@pytest.mark.slow
def test_letters_that_the_terminal_lacks_become_question_marks(folder):
    code = "from interreplay.experiments.commands.train import main; main(['--list-buffers'])"
    environment = {"PYTHONIOENCODING": "latin-1", "PATH": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"") and b"Attentive" in done.stdout and b"?" in done.stdout
