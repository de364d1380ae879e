"""Exported policies: other programs run the files and compute the actions of the policy."""

import logging
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest
import torch
from builders import full_disk, stacked

import interreplay
from interreplay.acting import export as exporting
from interreplay.acting.export import ExportError, draw_observations
from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.errors import UsageError
from interreplay.experiments.commands import main as command
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.architectures import ARCHITECTURES, assemble, build_encoder
from tests.acting.acting_cases import CASES, built
from tests.experiments.commands.command_lines import rejects

pytestmark = pytest.mark.usefixtures("cluster")

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["Rainbow", "uneven", "unsquashed", "Nested", "discrete SAC", "IQN", "residual"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    made = {}

    def of(name):
        if name not in made:
            algorithm = built(*CASES[name])
            for parameter in algorithm.learner.single_module.nets.actor.parameters():
                parameter.data.mul_(3.0)  # so that actions depend on observations
            made[name] = Path(algorithm.save_to_path(tmp_path_factory.mktemp("of") / "checkpoint_00000040"))
            algorithm.stop()
        return made[name]

    return of


def flat(observation, prefix=""):
    """Return the parts of a batch of observations by the input names of exported policies."""
    if isinstance(observation, tuple):
        observation = {str(i): part for i, part in enumerate(observation)}
    if not isinstance(observation, dict):
        return {prefix.rstrip("/") or "obs": observation}
    found = [flat(part, f"{prefix}{name}/") for name, part in observation.items()]
    return {name: part for parts in found for name, part in parts.items()}


def as_inputs(observation):
    return {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in flat(observation).items()}


def observations(space, count, normal):
    """Return random observations of a space; unbounded numbers are far from 0."""
    space.seed(7)
    batch = stacked([space.sample() for _ in range(count)])
    return np.random.default_rng(0).normal((100.0, -5.0, 0.0), (20.0, 0.1, 1.0), (count, 3)) if normal else batch


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_onnxruntime_acts_as_the_policy(checkpoint, tmp_path, capsys, name):
    assert command.main(["export", str(checkpoint(name)), "--to", str(tmp_path / "policy.onnx")]) == 0
    output = capsys.readouterr().out
    assert "1,000 observations" in output and "policy.onnx: " in output
    policy = interreplay.load_policy(checkpoint(name))
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    for count in (1, 7, 50):
        batch = observations(policy.observation_space, count, name in ("uneven", "unsquashed"))
        assert [given.name for given in session.get_inputs()] == sorted(as_inputs(batch))
        (actions,) = session.run(["actions"], as_inputs(batch))
        own = policy.act(batch)
        assert actions.dtype == own.dtype
        np.testing.assert_allclose(actions, own, rtol=1e-4, atol=1e-4)
    assert len(np.unique(own, axis=0)) > 1 or name == "IQN"


@pytest.mark.slow
def test_an_exported_pytorch_program_acts_as_the_policy(checkpoint, tmp_path):
    assert command.main(["export", str(checkpoint("goals")), "--to", str(tmp_path / "policy.pt2")]) == 0
    policy = interreplay.load_policy(checkpoint("goals"))
    program = torch.export.load(tmp_path / "policy.pt2").module()
    batch = observations(policy.observation_space, 9, False)
    inputs = as_inputs(batch)
    actions = program(*(torch.from_numpy(inputs[one]) for one in sorted(inputs)))
    np.testing.assert_allclose(actions.numpy(), policy.act(batch), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_as_a_user_exports(checkpoint, tmp_path):
    words = [sys.executable, "-m", "interreplay", "export", str(checkpoint("SAC")), "--to", "policy.onnx"]
    env = {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=tmp_path, env=env)
    assert (ran.returncode, ran.stderr) == (0, "")
    first, second, third = ran.stdout.splitlines()
    assert first.startswith("SAC on Pendulum-v1, ") and "checkpoint_00000040" in first
    assert second == "policy.onnx: obs (n, 3) float32 -> actions (n, 1) float32"
    report, _, largest = third.rpartition(" ")
    assert report == "largest difference from the policy over 1,000 observations" and 0 <= float(largest) < 1e-4
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]
    assert logging.root.manager.disable == logging.NOTSET


@pytest.mark.slow
def test_a_file_that_acts_differently_is_an_error(checkpoint, tmp_path, monkeypatch, capsys):
    forward = exporting.DeterministicPolicy.forward
    monkeypatch.setattr(exporting.DeterministicPolicy, "forward", lambda self, *parts: forward(self, *parts) * 0.99)
    assert command.main(["export", str(checkpoint("uneven")), "--to", str(tmp_path / "policy.pt2")]) == 1
    assert "acts differently: largest difference" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
    policy = interreplay.load_policy(checkpoint("QRDQN"))
    monkeypatch.setattr(exporting.DeterministicPolicy, "forward", lambda self, *parts: 1 - forward(self, *parts))
    with pytest.raises(ExportError, match="acts differently: the policy's own action for 0 of 20 observations"):
        exporting.export(policy, tmp_path / "policy.pt2", observations=20)
    monkeypatch.setattr(exporting.DeterministicPolicy, "forward", lambda self, *parts: forward(self, *parts)[:, None])
    with pytest.raises(ExportError, match=r"gives actions \(20, 1\)"):
        exporting.export(policy, tmp_path / "policy.pt2", observations=20)


@pytest.mark.slow
def test_a_full_disk_is_reported_in_one_line(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    words = ["export", str(checkpoint("SAC")), "--to", str(tmp_path / "policy.pt2")]
    rejects(capsys, command.main, words, "policy.pt2 cannot be written (No space left on device)")
    assert [*tmp_path.iterdir()] == []


def test_a_failed_export_is_reported_in_one_line(checkpoint, tmp_path, monkeypatch, capsys):
    of = str(checkpoint("SAC"))
    monkeypatch.chdir(tmp_path)
    for given, name, message in (
        (of, "policy.txt", "policy.txt ends in '.txt'; expected a file policy.onnx or policy.pt2"),
        (of, "no/policy.pt2", "no/policy.pt2 cannot be written; expected a file in an existing folder"),
        (tmp_path, "policy.pt2", "holds no checkpoint; give the folder of a checkpoint, or of a run"),
    ):
        rejects(capsys, command.main, ["export", str(given), "--to", name], message)
    monkeypatch.setattr(exporting.importlib.util, "find_spec", lambda name: None if "onnx" in name else name)
    with pytest.raises(UsageError, match=r"needs onnx, onnxruntime, onnxscript: pip install 'interreplay\[export\]'"):
        exporting.check_target(tmp_path / "policy.onnx")
    monkeypatch.undo()
    monkeypatch.setattr(torch, "__version__", "2.4.1+cpu")
    with pytest.raises(UsageError, match=r"policy.onnx requires PyTorch 2.5 or newer; PyTorch 2.4.1\+cpu is installed"):
        exporting.check_target(tmp_path / "policy.onnx")
    exporting.check_target(tmp_path / "policy.pt2")
    if Path("/proc/self").is_dir():  # even root cannot write there
        with pytest.raises(UsageError, match=r"policy.pt2: its folder /proc/self cannot be written to \(.*\); give a"):
            exporting.check_target(Path("/proc/self/policy.pt2"))


def test_compared_observations_are_those_of_training(checkpoint):
    policy = interreplay.load_policy(checkpoint("uneven"))
    drawn = draw_observations(policy, 500, 0)[""]
    assert drawn.dtype == np.float32 and drawn.shape == (500, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), (100, -5, 0), atol=20)
    pendulum = draw_observations(interreplay.load_policy(checkpoint("SAC")), 500, 0)[""]
    assert -8 <= pendulum[:, 2].min() < -7.5 and 7.5 < pendulum[:, 2].max() <= 8


@pytest.mark.filterwarnings("ignore:matrices are multiplied")
def test_rounding_of_convolutions_in_bfloat16_is_no_error():
    pixels = gym.spaces.Box(0, 255, (4, 36, 36), np.uint8)
    actions = gym.spaces.Box(-1, 1, (2,), np.float32)
    model = ALGORITHMS["IMPALA"].defaults | {"matrix_dtype": "float32", "normalize_observations": False}
    model |= {"hiddens": (32,), "encoder": "shallow", "conv_dtype": "bfloat16", "initial_weights": "orthogonal"}
    torch.manual_seed(0)
    encoder, width = build_encoder(pixels, model)
    nets = assemble(ARCHITECTURES["IMPALA"].make(width, actions, model, False), encoder, model)
    nets.requires_grad_(False).actor.layers.bodies[0].weights[-1].mul_(200.0)  # as after training
    policy = TrainedPolicy(nets, pixels, actions)
    module = exporting.DeterministicPolicy(policy).eval()
    parts = draw_observations(policy, 50, 0)
    found = exporting.compare_actions(policy, lambda given: module(torch.from_numpy(given[""])).numpy(), parts)
    assert exporting.ROUNDING < found.difference < exporting.NARROW_ROUNDING
