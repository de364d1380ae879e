"""The smoke test finds problems, explains how to fix them, and never fails itself."""

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.buffer.catalogue import methods
from interreplay.experiments.commands import smoketest
from interreplay.experiments.process.node_checks import NodeProblem

ROOT = Path(__file__).resolve().parents[3]

# Hides packages from imports and from the list of installed packages.
HIDE = """
import importlib.abc, importlib.metadata, runpy, sys
hidden = set(sys.argv[1:])
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
version = importlib.metadata.version
def hiding(name):
    if name in hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = hiding
sys.argv = ["smoketest.py"]
runpy.run_path("smoketest.py", run_name="__main__")
"""


@pytest.mark.slow
def test_a_complete_installation(capsys):
    assert smoketest.main() == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-1])
    assert lines[-1].startswith("all checks passed")
    names = [f"buffer {name}:" for name in methods() if name != "DeviceNMER"]
    for part in ["torch:", "mujoco steps:", *names, "training: SAC"]:
        assert any(part in line for line in lines), part


@pytest.mark.slow  # test_doors.py calls it without any package
def test_missing_packages():
    done = subprocess.run(
        [sys.executable, "-c", HIDE, "ray", "gymnasium"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    for package, requirement in ("ray", "ray[rllib]"), ("gymnasium", "gymnasium"):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"FAIL  {package}: not installed"))
        assert f'-m pip install "{requirement}' in lines[at + 1]
    assert any(line.startswith("FAIL  training") for line in lines)
    assert "checks failed" in lines[-1]


def test_a_package_of_another_version_or_that_cannot_be_imported(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "1.0")
        with pytest.raises(NodeProblem, match=r"1.0 is installed, .*>=2.4.* is required") as caught:
            smoketest.package("torch >=2.4,<3")
        assert 'pip install "torch >=2.4,<3"' in caught.value.fix
        patch.setattr(importlib.metadata, "version", lambda name: "2.13.0+cpu")
        assert smoketest.package("numpy ==2.13.0") == "2.13.0+cpu"
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(NodeProblem, match="cannot be imported") as caught:
        smoketest.package("tqdm >=4")
    assert "--force-reinstall" in caught.value.fix


def test_the_requirements_are_those_of_setup_cfg():
    assert smoketest.requirements()[0].startswith("ray[rllib]")
    found = [smoketest.distribution(line) for line in ("ray[rllib] >=2", "torch>=2", "scikit-learn")]
    assert found == ["ray", "torch", "scikit-learn"]


def test_every_failure_is_reported_and_the_rest_still_runs(monkeypatch, capsys):
    def broken():
        raise RuntimeError("first\nsecond")

    def silent():
        raise AssertionError

    monkeypatch.setattr(smoketest, "checks", lambda: {"a": broken, "b": lambda: "fine", "c": silent})
    assert smoketest.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAIL  a: RuntimeError: first"
    assert lines[1].startswith("      fix: ")
    assert lines[2] == "ok    b: fine"
    assert lines[3] == "FAIL  c: AssertionError"
    assert lines[5].startswith("2 of 3 checks failed")
