"""The README is correct: its Python runs, its commands are valid, and git ignores their output."""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cluster_run import main as cluster_run

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for line in re.findall(r"^\|[^|]+\| `([^`]+)` \|$", TEXT, re.MULTILINE)]


def of(*start: str) -> list[list[str]]:
    """Return the README's commands that begin with some words, without these words."""
    return [words[len(start) :] for words in COMMANDS if words[: len(start)] == list(start)]


def test_the_loop_without_ray():
    rng, n = np.random.default_rng(0), 400
    rows = {"obs": rng.normal(size=(n, 3)), "actions": rng.uniform(-1, 1, (n, 1)), "rewards": rng.normal(size=n)}
    rows |= {"next_obs": rng.normal(size=(n, 3)), "terminated": np.zeros(n, bool), "truncated": np.zeros(n, bool)}
    names = rows | {"td_errors": np.ones(256), "ids": np.arange(n)}
    (code,) = CODE.findall((ROOT / "docs" / "getting-started.md").read_text())
    exec(code.replace("1_000_000", "1_000"), names)
    assert names["sample"].transitions.obs.shape == (256, 3)


@pytest.mark.slow
def test_the_loop_with_ray_before_an_episode_has_ended(capsys):
    short = "config.reporting(min_sample_timesteps_per_iteration=20)\nalgo = config"
    (code,) = CODE.findall(TEXT)
    code = code.replace("1_000_000", "1_000").replace("range(100)", "range(2)").replace("algo = config", short)
    names = {}
    exec(f"{code}\nalgo.stop()\n", names)
    assert capsys.readouterr().out.splitlines() == ["20 None", "40 None"]


def test_there_are_commands_of_every_kind():
    assert len(COMMANDS) == 14 and {words[0] for words in COMMANDS} == {"python", "interreplay", "rllib"}
    assert all((ROOT / words[1]).is_file() for words in COMMANDS if words[0] == "python")


def test_the_study_has_runs(capsys):
    (words,) = of("interreplay", "study")
    assert cluster_run([*words, "--count"]) == 0 and capsys.readouterr().out == "10\n"


@pytest.mark.parametrize("torch", ["", "cpu"])
def test_make_installs_pytorch_from_the_requested_index(torch):
    words = ["make", "--dry-run", "--always-make", "install", f"TORCH={torch}"]
    lines = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    found = [line for line in lines.splitlines() if "download.pytorch.org" in line]
    assert len(found) == bool(torch)
    for line in found:
        own = re.sub(r"\S*python -m pip install", "echo", line)
        printed = subprocess.run(
            ["sh", "-c", own], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        ).stdout
        assert re.search(r"--index-url https://download.pytorch.org/whl/cpu torch==[\d.]+$", printed.strip())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no clone, so nothing is ignored")
@pytest.mark.parametrize(
    "name", ["hopper.gif", "agent.mp4", "interreplay.sif", "results/x", "report/index.html", "site/a"]
)
def test_output_of_commands_is_ignored_by_git(name):
    assert subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, timeout=60).returncode == 0
