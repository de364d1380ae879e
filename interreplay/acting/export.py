"""Export of trained policies to ONNX or to PyTorch's exported programs, compared with the policies themselves."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from interreplay.acting.trained_policy import TrainedPolicy, column_type
from interreplay.environments.actions import BoxActions, NestedActions, make_actions
from interreplay.environments.imports import suppress_logged_warnings
from interreplay.environments.spaces import flat_actions, leaves, nested
from interreplay.errors import InterreplayError, UsageError
from interreplay.learning.networks.convolutions import ConvolutionBody
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.networks.normalization import NormalizedEncoder
from interreplay.runs.run_folder import ensure_writable
from interreplay.transitions import pick

KINDS = {".onnx": ("onnx", "onnxruntime", "onnxscript"), ".pt2": ()}
"""Packages that each kind of file requires, all in the extra ``export``."""
ACTIONS = "actions"
ROUNDING = 1e-3
"""Tolerance as a fraction of half the range of an action, or of the largest value of Discrete actions."""
NARROW_ROUNDING = 0.1
"""Tolerance for policies with bfloat16 products, which exported policies do not have."""
USUAL = 100.0
"""Largest number in random observations."""
Runner = Callable[[dict[str, np.ndarray]], np.ndarray]
"""Runs an exported file: maps parts of observations ``(n, ...)`` by name to actions ``(n, ...)``."""


class ExportError(InterreplayError):
    """An exported policy acts differently from the policy."""

    exit_code = 1


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        observations: Number of observations.
        difference: Largest difference of actions, in the environment's units.
        others: Number of observations with a different Discrete action, of equal value up to rounding.
        discrete: Whether actions are discrete.
    """

    observations: int
    difference: float = 0.0
    others: int = 0
    discrete: bool = False

    def summary(self) -> str:
        """Return a summary for the end of a line."""
        if self.discrete:
            same = self.observations - self.others
            return f"the policy's own action for {same:,} of {self.observations:,} observations"
        return f"largest difference from the policy over {self.observations:,} observations {self.difference:.2g}"


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
    rounded: Tensor | None

    def __init__(self, policy: TrainedPolicy):
        super().__init__()
        nets = copy.deepcopy(policy.nets).cpu().requires_grad_(False)
        self.encoder = nets.encoder
        self.actor = nets.actor
        for part in self.modules():
            if isinstance(part, BatchedMLP):
                part.matrix_dtype = None
            elif isinstance(part, ConvolutionBody):
                part.conv_dtype = None
                part._patches = None
        self.names = sorted(leaves(policy.observation_space))
        self._space = flat_actions(policy.action_space)
        kept = make_actions(self._space, policy.normalized)
        if isinstance(kept, BoxActions):
            self.whole = kept.whole
            self.dtype = torch.from_numpy(np.empty(0, kept.dtype)).dtype
            bounds = {"low": kept.low, "high": kept.high, "start": kept.start, "reach": kept.half}
            for name, values in bounds.items():
                self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(values)))
        self.register_buffer("rounded", _rounded(policy.action_space))

    def forward(self, *parts: Tensor) -> Tensor:
        """Return actions ``(n, ...)`` for parts of observations ``(n, ...)``."""
        given = dict(zip(self.names, parts, strict=True))
        obs = self.encoder(given.get("", given))
        chosen = self.actor.mode(self.actor.output(obs))
        if isinstance(self._space, gym.spaces.Discrete):
            return chosen + int(self._space.start)
        scaled = self.start + (chosen.reshape(-1, *self._space.shape) + 1.0) * self.reach  # type: ignore[misc]
        bounded = torch.minimum(torch.maximum(scaled, self.low), self.high)
        if self.whole:
            return bounded.round().to(self.dtype)
        if self.rounded is not None:
            bounded = torch.where(self.rounded, bounded.round(), bounded)
        return bounded.to(self.dtype)


def _rounded(space: gym.Space) -> Tensor | None:
    """Return which entries ``(d,)`` of the vector of a Dict or Tuple are integers; None if there are none."""
    if not isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return None
    integers = []
    for _, part in sorted(leaves(space).items()):
        integers += [np.issubdtype(part.dtype, np.integer)] * gym.spaces.flatdim(part)
    return torch.tensor(integers) if any(integers) else None


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
        raise UsageError(f"{target} cannot contain the memory of the policy (lstm_cells); use interreplay.load_policy")
    parts = draw_observations(policy, observations, seed)
    work = target.with_name(f".{target.stem}.writing{target.suffix}")
    try:
        # Exporters print, log and warn.
        with suppress_logged_warnings(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            run = _write(DeterministicPolicy(policy).eval(), parts, work)
        found = compare_actions(policy, run, parts)
        work.replace(target)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written ({error.strerror}); expected a file in a writable folder"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            work.unlink(missing_ok=True)
    return found


def check_target(target: Path) -> None:
    """Check that a file can be written, before anything is loaded.

    Raises:
        UsageError: The suffix is unknown, the folder does not exist, a package is missing, or PyTorch is too old.
    """
    if target.suffix not in KINDS:
        raise UsageError(f"{target} ends in {target.suffix!r}; expected a file policy.onnx or policy.pt2")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise UsageError(f"{target} cannot be written; expected a file in an existing folder")
    ensure_writable(target.absolute().parent, f"{target}: its folder")
    missing = [name for name in KINDS[target.suffix] if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{target} needs {', '.join(missing)}: pip install 'interreplay[export]'")
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if target.suffix == ".onnx" and version < (2, 5):
        raise UsageError(
            f"{target} requires PyTorch 2.5 or newer; PyTorch {torch.__version__} is installed; expected policy.pt2"
        )


def signature(policy: TrainedPolicy) -> str:
    """Return inputs and outputs of an exported policy, such as ``obs (n, 3) float32 -> actions (n, 1) float32``."""
    given = []
    for name, space in sorted(leaves(policy.observation_space).items()):
        given.append(f"{name or 'obs'} {_shape(space)} {column_type(space)}")
    actions = flat_actions(policy.action_space)
    return f"{', '.join(given)} -> {ACTIONS} {_shape(actions)} {actions.dtype}"


def _shape(space: gym.Space) -> str:
    return str(("n", *(space.shape or ()))).replace("'", "")


def _write(module: DeterministicPolicy, parts: dict[str, np.ndarray], path: Path) -> Runner:
    """Write a policy for a variable number of observations, and return a function that runs the file."""
    example = tuple(torch.from_numpy(parts[name][:3]) for name in module.names)
    count = torch.export.Dim("n", min=1)
    with torch.enable_grad():  # networks then use operations of autograd, not our own
        program = torch.export.export(module, example, dynamic_shapes={"parts": ({0: count},) * len(example)})
    if path.suffix == ".pt2":
        file = io.BytesIO()  # PyTorch's own writer ends the process on a full disk
        torch.export.save(program, file)
        path.write_bytes(file.getvalue())
        loaded = torch.export.load(path).module()
        return lambda given: loaded(*(torch.from_numpy(given[name]) for name in module.names)).numpy(force=True)

    import onnxruntime

    names = [name or "obs" for name in module.names]
    graph = torch.onnx.export(program, input_names=names, output_names=[ACTIONS], dynamo=True, verbose=False)
    assert graph is not None
    graph.save(str(path), external_data=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda given: session.run([ACTIONS], {name or "obs": part for name, part in given.items()})[0]


def draw_observations(policy: TrainedPolicy, count: int, seed: int) -> dict[str, np.ndarray]:
    """Draw observations ``(count, ...)`` by the names of their parts.

    If the policy normalizes observations, numbers are normal with the mean and standard deviation of the training data.
    """
    rng = np.random.default_rng(seed)
    found = {}
    encoder = policy.nets.encoder
    begin = 0
    for name, space in sorted(leaves(policy.observation_space).items()):
        dtype = column_type(space)
        width = gym.spaces.flatdim(space)
        space.seed(seed)
        column = np.stack([space.sample() for _ in range(count)])
        if dtype.kind == "f":
            column = np.clip(column, -USUAL, USUAL)
            if isinstance(encoder, NormalizedEncoder) and isinstance(encoder.encoder, Flat):
                part = slice(begin, begin + width)
                normal = rng.standard_normal((count, width)) / encoder.factor.numpy(force=True)[part]
                column = (encoder.shift.numpy(force=True)[part] + normal).reshape(count, *(space.shape or ()))
        found[name] = column.astype(dtype)
        begin += width
    return found


def compare_actions(policy: TrainedPolicy, run: Runner, parts: dict[str, np.ndarray]) -> Comparison:
    """Compare the actions of an exported policy with the policy's, also for a single observation."""
    obs = parts.get("")
    if obs is None:
        obs = nested(policy.observation_space, parts)
    space = flat_actions(policy.action_space)
    own = policy.act(obs)
    exported = run(parts)
    if space is not policy.action_space:
        own = NestedActions(policy.action_space).flat(own)
    alone = run(pick(parts, slice(1)))
    if exported.shape != own.shape or alone.shape != own[:1].shape:
        raise ExportError(f"the exported policy gives actions {exported.shape} and {alone.shape}; expected {own.shape}")
    count = len(own)
    if isinstance(space, gym.spaces.Discrete):
        values = policy.output(obs)[:, : int(space.n)].numpy(force=True)
        chosen = values[np.arange(count), exported - int(space.start)]
        missed = ((values.max(axis=1) - chosen) / (1.0 + np.abs(values).max(axis=1))).max()
        found = Comparison(count, others=int((own != exported).sum()), discrete=True)
    else:
        assert isinstance(space, gym.spaces.Box)
        difference = np.abs(own.astype(np.float64) - exported)
        missed = (difference / np.maximum((space.high - space.low) / 2, 1e-12)).max()
        found = Comparison(count, difference=float(difference.max()))
    tolerance = ROUNDING
    for part in policy.nets.modules():
        types = (getattr(part, "matrix_dtype", None), getattr(part, "conv_dtype", None))
        if types != (None, None):
            tolerance = NARROW_ROUNDING
    if not missed <= tolerance:
        raise ExportError(f"the exported policy acts differently: {found.summary()}; nothing was written")
    return found
