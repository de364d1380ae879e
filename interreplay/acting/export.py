"""Export of trained policies to ONNX or to PyTorch's exported programs."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from interreplay.acting.actions import BoxActions, actions_of
from interreplay.acting.export_check import Comparison, compared, drawn_observations
from interreplay.acting.observations import column_type
from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.environments.spaces import flat_actions, leaves
from interreplay.errors import UsageError
from interreplay.learning.networks.convolutions import ConvolutionBody
from interreplay.learning.networks.layers import BatchedMLP

KINDS = {".onnx": ("onnx", "onnxruntime", "onnxscript"), ".pt2": ()}
"""Packages that each kind of file requires, all in the extra ``export``."""
ACTIONS = "actions"
Runner = Callable[[dict[str, np.ndarray]], np.ndarray]
"""Maps parts of observations ``(n, ...)`` by name to actions ``(n, ...)`` by means of an exported file."""


class DeterministicPolicy(nn.Module):
    """Maps observations of the environment to the best actions, in one graph of float32 operations.

    Args:
        policy: A policy; its networks are copied.

    Attributes:
        names: Names of the parts of an observation, in the order of the arguments of `forward`.
    """

    low: Tensor
    high: Tensor
    start: Tensor
    reach: Tensor

    def __init__(self, policy: TrainedPolicy):
        super().__init__()
        nets = copy.deepcopy(policy.nets).cpu().requires_grad_(False)
        self.encoder, self.actor = nets.encoder, nets.actor
        for part in self.modules():
            if isinstance(part, BatchedMLP):
                part.matrix_dtype = None
            elif isinstance(part, ConvolutionBody):
                part.conv_dtype = None
                part._patches = None
        self.names = sorted(leaves(policy.observation_space))
        self._space = flat_actions(policy.action_space)
        kept = actions_of(self._space, policy.normalized)
        if isinstance(kept, BoxActions):
            bounds = {"low": kept.low, "high": kept.high, "start": kept.start, "reach": kept.half}
            for name, values in bounds.items():
                self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(values)))

    def forward(self, *parts: Tensor) -> Tensor:
        """Return actions ``(n, ...)`` for parts of observations ``(n, ...)``."""
        obs = self.encoder(parts[0] if self.names == [""] else dict(zip(self.names, parts, strict=True)))
        chosen = self.actor.mode(self.actor.output(obs))
        if isinstance(self._space, gym.spaces.Discrete):
            return chosen + int(self._space.start)
        scaled = self.start + (chosen.reshape(-1, *self._space.shape) + 1.0) * self.reach  # type: ignore[misc]
        bounded = torch.minimum(torch.maximum(scaled, self.low), self.high)
        return bounded.to(self.low.dtype)


def export(policy: TrainedPolicy, path: str | Path, observations: int = 1000, seed: int = 0) -> Comparison:
    """Write the policy's best actions as a function of observations, and compare the file with the policy.

    Args:
        policy: The policy.
        path: A file ``*.onnx`` or ``*.pt2``; it is created only if the comparison succeeds.
        observations: Number of random observations for the comparison.
        seed: Seed of these observations.

    Returns:
        Result of the comparison.

    Raises:
        UsageError: The suffix is unknown, the file cannot be written, or a package is missing.
        ExportError: The file acts differently from the policy.
    """
    target = Path(path)
    check_target(target)
    if policy.nets.actor.memory is not None:
        raise UsageError(
            f"{target} cannot keep the memory that the policy has (lstm_cells); use interreplay.load_policy"
        )
    module = DeterministicPolicy(policy).eval()
    parts = drawn_observations(policy, observations, seed)
    work = target.with_name(f".{target.stem}.writing{target.suffix}")
    try:
        with _quiet():
            (_write_onnx if target.suffix == ".onnx" else _write_pt2)(module, parts, work)
            run = (_run_onnx if target.suffix == ".onnx" else _run_pt2)(work)
        found = compared(policy, run, parts)
        work.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}); give a file in a folder that can") from error
    finally:
        work.unlink(missing_ok=True)
    return found


def check_target(target: Path) -> None:
    """Check that a file can be written, before anything is loaded.

    Raises:
        UsageError: The suffix is unknown, the folder does not exist, or a package is missing.
    """
    if target.suffix not in KINDS:
        raise UsageError(f"{target} ends in {target.suffix!r}; expected a file policy.onnx or policy.pt2")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise UsageError(f"{target} cannot be written; give a file in a folder that exists")
    missing = [name for name in KINDS[target.suffix] if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{target} needs {', '.join(missing)}: pip install 'interreplay[export]'")


def input_names(space: gym.Space) -> list[str]:
    """Return the names of the inputs of an exported policy: "obs", or those of the parts of an observation."""
    return [name or "obs" for name in sorted(leaves(space))]


def signature(policy: TrainedPolicy) -> str:
    """Return inputs and outputs of an exported policy, such as ``obs (n, 3) float32 -> actions (n, 1) float32``."""
    spaces = leaves(policy.observation_space)
    given = [_shown(name or "obs", spaces[name].shape or (), column_type(spaces[name])) for name in sorted(spaces)]
    actions = flat_actions(policy.action_space)
    return f"{', '.join(given)} -> {_shown(ACTIONS, actions.shape or (), actions.dtype)}"


def _shown(name: str, shape: tuple[int, ...], dtype: Any) -> str:
    return f"{name} ({', '.join(map(str, ('n', *shape)))}{'' if shape else ','}) {dtype}"


def _program(module: DeterministicPolicy, parts: dict[str, np.ndarray]) -> Any:
    """Return the graph of a policy for a variable number of observations."""
    example = tuple(torch.from_numpy(parts[name][:3]) for name in module.names)
    count = torch.export.Dim("n", min=1)
    with torch.enable_grad():  # networks then use operations of autograd, not our own
        return torch.export.export(module, example, dynamic_shapes={"parts": tuple({0: count} for _ in example)})


def _write_pt2(module: DeterministicPolicy, parts: dict[str, np.ndarray], path: Path) -> None:
    torch.export.save(_program(module, parts), path)


def _run_pt2(path: Path) -> Runner:
    loaded = torch.export.load(path).module()

    def run(parts: dict[str, np.ndarray]) -> np.ndarray:
        return loaded(*(torch.from_numpy(parts[name]) for name in sorted(parts))).numpy(force=True)

    return run


def _write_onnx(module: DeterministicPolicy, parts: dict[str, np.ndarray], path: Path) -> None:
    names = [name or "obs" for name in module.names]
    program = torch.onnx.export(
        _program(module, parts), input_names=names, output_names=[ACTIONS], dynamo=True, verbose=False
    )
    assert program is not None
    program.save(str(path), external_data=False)


def _run_onnx(path: Path) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(parts: dict[str, np.ndarray]) -> np.ndarray:
        return session.run([ACTIONS], {name or "obs": part for name, part in parts.items()})[0]

    return run


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what exporters print, log and warn about."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
