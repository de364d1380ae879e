"""The smoke test finds problems, explains how to fix them, and never fails itself."""

import importlib
import importlib.metadata
import sys

import pytest

from interreplay.experiments.commands import smoketest
from interreplay.experiments.commands.smoketest import NodeProblem


@pytest.mark.slow
def test_a_complete_installation(capsys):
    assert smoketest.main() == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-1])
    assert lines[-1].startswith("all checks passed")
    for part in ["torch:", "mujoco steps:", "training: SAC"]:
        assert any(part in line for line in lines), part


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
