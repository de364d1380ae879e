"""Studies through Ray Tune: from the command line, interrupted, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interreplay.experiments.commands.study import main
from tests.experiments.commands.command_lines import steps, table

ROOT = Path(__file__).resolve().parents[3]
TINY = "steps_per_iteration: 100, learning_starts: 60, train_batch_size: 32, buffer_size: 2000, hiddens: [16, 16]"
TINY += ", evaluation_num_episodes: 1, checkpoint_freq: 1"
ENVS = '''
import json, os, time
from pathlib import Path
import gymnasium as gym
import torch
from gymnasium.envs.classic_control import PendulumEnv

class Broken(PendulumEnv):
    """Notes its folder and threads, breaks, or pauses at the 350th step.

    "bad" raises an error in the first start of its run, ends the process in the second one, and hangs in the third one.
    """
    def __init__(self, kind):
        super().__init__()
        self.kind, self.steps = kind, 0
    def step(self, action):
        self.steps += 1
        if self.kind == "threads" and self.steps == 5:
            found = {k: v for k, v in os.environ.items() if "NUM_THREADS" in k} | {"torch": torch.get_num_threads()}
            found["folder"] = os.getcwd()
            open(os.environ["THREADS_FILE"], "w").write(json.dumps(found))
        start = 0
        if self.kind == "bad" and self.steps in (30, 150):
            (status,) = Path(__file__).parent.glob("r/*Bad*/status.json")
            start = json.loads(status.read_text())["starts"]
        if self.kind == "bug" and self.steps >= 150 or (start, self.steps) == (1, 150):
            raise RuntimeError("the simulator broke")
        if (start, self.steps) == (2, 30):
            os.kill(os.getpid(), 9)
        if (start, self.steps) == (3, 30):
            time.sleep(1000)
        while self.kind in ("wait", "pause") and self.steps == 350 and not os.path.exists(os.environ["GO_FILE"]):
            time.sleep(0.05)
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self.kind == "nan" and self.steps >= 150 else reward, *rest

for kind in ("threads", "bad", "bug", "nan", "wait", "pause"):
    gym.register(f"{kind.title()}-v0", entry_point=Broken, kwargs={"kind": kind}, max_episode_steps=100)
'''


@pytest.fixture
def study(tmp_path):
    (tmp_path / "envs_for_studies.py").write_text(ENVS)

    def write(total: int = 300, **keys: str) -> Path:
        keys = {"envs": "[Pendulum-v1]", "settings": f"{{total_env_steps: {total}, {TINY}}}"} | keys
        (tmp_path / "study.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
        return tmp_path / "study.yaml"

    return write


def start(tmp_path: Path, *words: object, **options) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "cluster_run.py"), *map(str, words)]
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    environment = os.environ | {"PYTHONPATH": path, "THREADS_FILE": str(tmp_path / "threads.json")}
    environment["GO_FILE"] = str(tmp_path / "go")
    environment = {k: v for k, v in environment.items() if k not in ("RAY_ADDRESS", "OMP_NUM_THREADS")}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def run(tmp_path: Path, *words: object) -> tuple[int, str, str]:
    process = start(tmp_path, *words)
    out, err = process.communicate(timeout=1000)
    return process.returncode, out, err


def status(folder: Path) -> dict:
    return json.loads((folder / "status.json").read_text())


@pytest.mark.slow
def test_a_study_ends_with_tables_and_reports_what_failed(study, tmp_path):
    """One run finishes; the environment of the other raises an error, ends its process, and hangs."""
    file = study(envs="[envs_for_studies:Threads-v0, envs_for_studies:Bad-v0]", max_failures="2")
    flags = ["--max-concurrent", 2, "--hang-timeout", 15]
    code, out, err = run(tmp_path, *flags, "--results_dir", tmp_path / "r", file)
    assert (code, err) == (1, "")
    assert "(raylet)" not in out and "\x1b" not in out
    good, bad = (tmp_path / "r" / f"SAC_envs_for_studies-{kind}-v0_Uniform_s0" for kind in ("Threads", "Bad"))
    assert steps(good) == [100, 200, 300] and status(good)["state"] == "finished"
    assert status(bad) == status(bad) | {"state": "failed", "starts": 3, "begun_at": 149}
    broke = "EnvironmentFailure: the environment envs_for_studies:Bad-v0 raised RuntimeError: the simulator broke"
    raised, died, hung = status(bad)["failures"]
    assert raised == f"{broke}, at env step 150"
    assert f"trying again from its last checkpoint: {raised}" in out
    assert died.startswith("its process ended: The actor is dead because its worker process has died.")
    assert died.endswith("End of file.") and died in out
    assert "hung: no progress for 15 s; the stacks are in hung.txt" in out
    assert "envs_for_studies.py" in (bad / "hung.txt").read_text()
    lines = out.splitlines()
    assert any(line.startswith("[1/2] ") and "finished at 300 steps" in line for line in lines)
    row = next(i for i, line in enumerate(lines) if line.startswith(bad.name) and "  3  " in line)
    assert hung in " ".join(" ".join(lines[row:-1]).split()), "the reason, wrapped over several lines"
    assert lines[-1].startswith("1 of 2 runs failed; retry them with: ")
    threads = json.loads((tmp_path / "threads.json").read_text())
    assert threads.pop("folder") == str(ROOT), "Tune would change to the folder of the trial"
    assert threads.pop("torch") == 1 and set(threads.values()) == {"1"} and len(threads) >= 3
    rows = table(tmp_path / "r" / "runs.csv")
    assert [row["state"] for row in rows] == ["finished", "failed"]
    returns = [float(row["evaluation/env_runners/episode_return_mean"]) for row in table(good / "progress.csv")]
    assert float(rows[0]["final_return"]) == pytest.approx(returns[-1])
    assert float(rows[0]["mean_return"]) == pytest.approx(sum(returns) / 3)
    assert sorted(row["n"] for row in table(tmp_path / "r" / "table.csv")) == ["0", "1"]  # by environment


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sigterm_loses_nothing_and_repeats_nothing(study, tmp_path, capsys):
    """The same command continues a study that SIGTERM ended."""
    file, results = study(400, seeds="2"), tmp_path / "r"
    words = ["--max_concurrent", "1", "--results_dir", str(results), str(file)]
    process = start(tmp_path, *words, start_new_session=True)
    folders = [results / f"SAC_Pendulum-v1_Uniform_s{seed}" for seed in (0, 1)]
    first = folders[0]
    wait_for(lambda: (first / "progress.csv").exists(), process)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: list(first.glob("checkpoint_*")), process)
    os.killpg(process.pid, signal.SIGTERM)  # to Ray's processes, too, as `timeout` and a shell's `kill -- -PGID` do
    out, err = process.communicate(timeout=500)
    assert process.returncode == 75, out + err
    assert out.splitlines()[-1].startswith("2 of 2 runs are left; continue with: ")
    assert status(first)["state"] == "interrupted" and status(first)["starts"] == 1
    assert main(words) == 0, capsys.readouterr()
    assert sorted(path.parent for path in results.glob("*/status.json")) == folders
    for folder, starts in zip(folders, (2, 1), strict=True):
        assert steps(folder) == [100, 200, 300, 400], folder.name
        assert status(folder) == status(folder) | {"state": "finished", "failures": [], "starts": starts}


def wait_for(condition, process: subprocess.Popen[str], patience: float = 500) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)
