"""Files of a user with the names of ours: our code imports our catalogue, the user's code the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import replay_buffers
from interreplay.buffer import catalogue

NAMES = ("argument_parser", "custom_training", "cluster_run", "enjoy", "smoketest")


@pytest.fixture
def folder(tmp_path):
    """A user's folder with a package `replay_buffers` and files named as our scripts."""
    (tmp_path / "replay_buffers").mkdir()
    (tmp_path / "replay_buffers" / "__init__.py").write_text("MINE = 7\n__all__ = ['MINE']\n")
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this file is the user\\'s')\n")
    return tmp_path


def call(*words: str, folder: Path) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_the_catalogue_returns_the_classes_of_the_package():
    found = catalogue.methods()
    assert list(found) == list(replay_buffers.__all__)
    assert all(found[name] is getattr(replay_buffers, name) for name in found)


@pytest.mark.slow
def test_a_name_means_our_method_next_to_a_package_of_the_user(folder):
    code = """
import replay_buffers
from interreplay.buffer.catalogue import make_buffer, methods
assert replay_buffers.MINE == 7
buffer = make_buffer("NMER", capacity=100, k=3, seed=0)
assert type(buffer) is methods()["NMER"] and type(buffer).__name__ == "NMER"
print(*methods())
import replay_buffers as again
assert again.MINE == 7
"""
    done = call("-c", code, folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(replay_buffers.__all__)


@pytest.mark.slow
def test_a_single_file_with_that_name_is_ignored(tmp_path):
    (tmp_path / "replay_buffers.py").write_text("raise RuntimeError('of the user')\n")
    done = call("-c", "from interreplay.buffer.catalogue import methods; print(*methods())", folder=tmp_path)
    assert done.returncode == 0 and done.stdout.split() == list(replay_buffers.__all__), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("train", "--list-buffers"),
        ("study", "--buffers", "NMER", "--envs", "Pendulum-v1", "--count"),
        ("evaluate", "--help"),
        ("smoketest", "--help"),
    ],
    ids=lambda words: words[0],
)
def test_commands_import_our_files(folder, words):
    done = call("-m", "interreplay", *words, folder=folder)
    assert done.returncode == 0 and "the user" not in done.stdout + done.stderr, done.stderr


@pytest.mark.slow
def test_a_configuration_uses_our_method(folder):
    code = """
from interreplay.rllib import SACConfig
config = SACConfig().environment("Pendulum-v1").replay("NMER", capacity=1_000, k=3)
config.training(num_steps_sampled_before_learning_starts=50, train_batch_size_per_learner=16, hiddens=(16,))
config.reporting(min_sample_timesteps_per_iteration=60)
algo = config.build_algo()
algo.train()
assert type(algo.replay_buffer).__name__ == "NMER", algo.replay_buffer
algo.stop()
import replay_buffers
print(replay_buffers.MINE)
"""
    done = call("-c", code, folder=folder)
    assert done.returncode == 0 and done.stdout.split()[-1] == "7", done.stderr
