"""The Ray versions that this package supports, and the differences between them."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils.torch_utils import convert_to_torch_tensor

TESTED = ("2.54", "2.55", "2.56", "2.57", "2.58", "2.59", "2.60")
"""Minor versions of Ray that passed ``python -m benchmarks.versions``; docs/versions.md has the results."""


def warn_if_untested(version: str = ray.__version__) -> None:
    """Warn about a version of Ray that is newer than the tested ones.

    Args:
        version: Ray's version.
    """
    if minor_version(version) > minor_version(TESTED[-1]):
        warnings.warn(
            f"Ray {version} is untested; tested versions: {', '.join(TESTED)}. "
            f'If training fails, run: pip install "ray[rllib]=={TESTED[-1]}.*"',
            stacklevel=2,
        )


def minor_version(version: str = ray.__version__) -> tuple[int, int]:
    """Return the major and the minor number of a version, for comparisons."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


class WithoutResultFolder(Algorithm):
    """RLlib's algorithm, which makes no folder for results outside of Tune."""

    def __init__(self, *args: Any, **options: Any):
        # Up to Ray 2.54, RLlib makes a folder in ~/ray_results unless it is given a logger; Tune gives one.
        if minor_version() < (2, 55) and options.get("logger_creator") is None:
            options["logger_creator"] = _no_logger
        super().__init__(*args, **options)

    def _setup_logdir(self) -> None:
        """Make no folder: outside of Tune nothing is written there. Ray 2.55 and newer call this."""
        if self._storage:
            super()._setup_logdir()
        else:
            self._logdir = tempfile.gettempdir()


class ExactOptimizerStates(TorchLearner):
    """RLlib's learner, which restores the settings of optimizers exactly."""

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        if minor_version() >= (2, 56):
            super()._set_optimizer_state(state)
            return
        # Up to Ray 2.55, RLlib restores Adam's betas and the like as float32 tensors, so a resumed run would differ.
        for name, saved in state.items():
            optimizer_state = saved["state"]
            tensors = convert_to_torch_tensor(optimizer_state["state"], device=self._device)
            self._named_optimizers[name].load_state_dict({**optimizer_state, "state": tensors})


def _no_logger(config: dict[str, Any]) -> Any:
    """Return a logger that writes nothing."""
    from ray.tune.logger import NoopLogger

    return NoopLogger(config, tempfile.gettempdir())
