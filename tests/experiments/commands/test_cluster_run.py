"""Studies through Ray Tune: from the command line, interrupted, and resumed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.experiments.commands.command_lines import read_csv, steps

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
    """Breaks, or pauses at the 350th step.

    "good" notes its folder and threads, and raises an error at the first step of training in the second start of its
    run. "bad" ends its process after a checkpoint in the first start, and hangs in the second one.
    """
    def __init__(self, kind):
        super().__init__()
        self.kind, self.steps = kind, 0
    def step(self, action):
        self.steps += 1
        if self.kind == "good" and self.steps == 5:
            found = {k: v for k, v in os.environ.items() if "NUM_THREADS" in k} | {"torch": torch.get_num_threads()}
            found["folder"] = os.getcwd()
            open(os.environ["THREADS_FILE"], "w").write(json.dumps(found))
        breaks = self.kind == "bug" and self.steps >= 150
        if (self.kind, self.steps) in (("good", 1), ("bad", 30), ("bad", 130)):
            (status,) = Path(__file__).parent.glob(f"r/*{self.kind.title()}*/status.json")
            start = json.loads(status.read_text())["starts"]
            if (self.kind, start, self.steps) == ("bad", 1, 130):
                os.kill(os.getpid(), 9)
            if (self.kind, start) == ("bad", 2):
                time.sleep(1000)
            breaks = (self.kind, start) == ("good", 2)
        if breaks:
            raise RuntimeError("the simulator broke")
        pauses = self.kind in ("good", "wait", "pause") and self.steps == 350
        while pauses and not os.path.exists(os.environ["GO_FILE"]):
            time.sleep(0.05)
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self.kind == "nan" and self.steps >= 150 else reward, *rest

for kind in ("good", "bad", "bug", "nan", "wait", "pause"):
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
@pytest.mark.timeout(1800)
def test_an_interrupted_study_resumes_and_reports_what_failed(study, tmp_path):
    """SIGTERM ends a study; the same command resumes it.

    In the second start of the first run, its environment raises an error, and the run is tried again. The environment
    of the second run ends its process, then hangs, and the run fails.
    """
    file = study(400, envs="[envs_for_studies:Good-v0, envs_for_studies:Bad-v0]", max_failures="1")
    results = tmp_path / "r"
    words = ["--hang-timeout", 15, "--results_dir", results, file]
    good, bad = (results / f"SAC_envs_for_studies-{kind}-v0_Uniform_s0" for kind in ("Good", "Bad"))
    process = start(tmp_path, "--max-concurrent", 1, *words, start_new_session=True)
    wait_for((good / "status.json").exists, process)
    sockets = listening(process.pid)
    assert len(sockets) > 2 and set(sockets) == {"127.0.0.1"}, "the private Ray is for this machine only"
    wait_for((good / "progress.csv").exists, process)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: list(good.glob("checkpoint_*")), process)
    os.killpg(process.pid, signal.SIGTERM)  # to Ray's processes, too, as `timeout` and a shell's `kill -- -PGID` do
    time.sleep(1.0)
    (tmp_path / "go").touch()  # a run that has reached its 350th step waits there until it has received the signal
    out, err = process.communicate(timeout=500)
    assert process.returncode == 75, out + err
    assert out.splitlines()[-1].startswith("2 of 2 runs are left; continue with: ")
    assert status(good) == status(good) | {"state": "interrupted", "starts": 1, "failures": []}
    assert not (bad / "status.json").exists()
    code, out, err = run(tmp_path, "--max-concurrent", 2, *words)
    assert (code, err) == (1, "")
    assert "(raylet)" not in out and "\x1b" not in out
    assert steps(good) == [100, 200, 300, 400], "nothing is lost or repeated"
    assert sorted(path.parent for path in results.glob("*/status.json")) == [bad, good]
    (raised,) = status(good)["failures"]
    broke = "EnvironmentFailure: the environment envs_for_studies:Good-v0 raised RuntimeError: the simulator broke"
    begun = status(good)["begun_at"]
    assert raised == f"{broke}, at env step {begun + 1}" and begun > 100
    assert status(good) == status(good) | {"state": "finished", "starts": 3}
    assert f"trying again from its last checkpoint: {raised}" in out
    assert status(bad) == status(bad) | {"state": "failed", "starts": 2, "begun_at": 100}
    died, hung = status(bad)["failures"]
    assert died.startswith("its process ended: The actor is dead because its worker process has died.")
    assert died.endswith("End of file.") and died in out
    assert "hung: no progress for 15 s; the stacks are in hung.txt" in out
    assert "envs_for_studies.py" in (bad / "hung.txt").read_text()
    lines = out.splitlines()
    assert any(re.match(r"\[[12]/2\] ", line) and "finished at 400 steps" in line for line in lines)
    row = next(i for i, line in enumerate(lines) if line.startswith(bad.name) and "  2  " in line)
    assert hung in " ".join(" ".join(lines[row:-1]).split()), "the reason, wrapped over several lines"
    assert lines[-1].startswith("1 of 2 runs failed; retry them with: ")
    threads = json.loads((tmp_path / "threads.json").read_text())
    assert threads.pop("folder") == str(ROOT), "Tune would change to the folder of the trial"
    assert threads.pop("torch") == 1 and set(threads.values()) == {"1"} and len(threads) >= 3
    rows = read_csv(results / "runs.csv")
    assert [row["state"] for row in rows] == ["finished", "failed"]
    returns = [float(row["evaluation/env_runners/episode_return_mean"]) for row in read_csv(good / "progress.csv")]
    assert float(rows[0]["final_return"]) == pytest.approx(returns[-1])
    assert float(rows[0]["mean_return"]) == pytest.approx(sum(returns) / 4)
    assert sorted(row["n"] for row in read_csv(results / "table.csv")) == ["0", "1"]  # by environment


def listening(pid: int) -> list[str]:
    """Return the addresses at which a process and its children listen, one per socket."""
    process = psutil.Process(pid)
    addresses = []
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            for connection in each.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    addresses.append(connection.laddr.ip.removeprefix("::ffff:"))
    return addresses


def wait_for(condition, process: subprocess.Popen[str], patience: float = 500) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)
