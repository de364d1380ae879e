"""Settings are resolved once, and a value passes few files on its way from the command line to its part."""

import re
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import custom_training
from interreplay.buffer.replay_buffer import ReplayBuffer
from interreplay.experiments.commands import preparation
from interreplay.experiments.flags import training_flags
from interreplay.experiments.flags.training_flags import RunSettings, make_parser, resolve_settings
from interreplay.neighborhood import KNN

ROOT = Path(__file__).resolve().parents[3]
LINE = "--env Pendulum-v1 --preset none --buffer NMER --buffer_arg k=7 --learning_starts 30 --train_batch_size 8"


def holds(value: Any, depth: int = 6) -> bool:
    """Return whether a value is or contains ``k=7`` in any form: text, pair, mapping, settings or argument."""
    if isinstance(value, str):
        return value == "k=7"
    if isinstance(value, dict):
        return any((key == "k" and item == 7) or (depth and holds(item, depth - 1)) for key, item in value.items())
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "k" and value[1] == 7:
        return True
    if isinstance(value, list | tuple | set | frozenset):
        return bool(depth) and any(holds(item, depth - 1) for item in value)
    if isinstance(value, RunSettings | preparation.PreparedRun | KNN):
        return holds(vars(value), depth - 1)
    return False


class _Built(Exception):
    """Raised when KNN(k=7) is constructed."""


def test_k_passes_at_most_ten_files_on_its_way_to_knn(monkeypatch, tmp_path):
    passed: dict[str, set[str]] = {}

    def note(frame: Any, event: str, result: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or not path.is_relative_to(ROOT) or path == Path(__file__):
            return
        if ".venv" not in path.parts and (holds(dict(frame.f_locals)) or (event == "return" and holds(result))):
            passed.setdefault(str(path.relative_to(ROOT)), set()).add(frame.f_code.co_name)

    def arrived(self: KNN, k: int) -> None:
        raise _Built(k)

    monkeypatch.setattr(KNN, "__init__", arrived)
    sys.setprofile(note)
    try:
        with pytest.raises(_Built, match="7"):
            custom_training.main([*LINE.split(), "--output_dir", str(tmp_path)])
    finally:
        sys.setprofile(None)
    files = {*passed, "interreplay/neighborhood/knn.py"}  # its __init__ is replaced here
    assert len(files) <= 10, {file: sorted(names) for file, names in passed.items()}
    page = (ROOT / "docs" / "concepts.md").read_text().split("## The path of a flag")[1].split("\n## ")[0]
    documented = re.findall(r"^\d+\. `([^`]+)`", page, flags=re.MULTILINE)
    assert files == {file if file.startswith("replay_buffers/") else f"interreplay/{file}" for file in documented}


def test_the_settings_are_resolved_once_and_one_buffer_is_built(monkeypatch, tmp_path, capsys):
    from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm

    def spied(owner: Any, name: str) -> mock.Mock:
        """Record the calls of a function."""
        function = getattr(owner, name)
        monkeypatch.setattr(owner, name, mock.create_autospec(function, side_effect=function))
        return getattr(owner, name)

    built = spied(ReplayBuffer, "__init__")
    resolved = [spied(module, "resolve_settings") for module in (preparation, training_flags)]
    estimated = spied(preparation, "estimate")
    prepared = spied(OffPolicyAlgorithm, "_prepare")
    steps = "--total_env_steps 40 --steps_per_iteration 20 --evaluation_interval 0 --hiddens 8,8 --quiet"
    assert custom_training.main([*LINE.split(), *steps.split(), "--output_dir", str(tmp_path)]) == 0
    assert sum(spy.call_count for spy in resolved) == 1
    (buffer,) = [call.args[0] for call in built.call_args_list]
    assert [call.args[2] for call in estimated.call_args_list] == [buffer]
    assert [call.args[0].replay_buffer for call in prepared.call_args_list] == [buffer]
    assert "NMER(k=7)" in capsys.readouterr().out


def test_settings_of_a_run_are_read_only():
    settings = resolve_settings(make_parser().given(LINE.split()))
    with pytest.raises(AttributeError, match="read-only: cannot set seed to 3"):
        settings.seed = 3
    assert settings.replace(seed=3).seed == 3 and settings.seed == 0
