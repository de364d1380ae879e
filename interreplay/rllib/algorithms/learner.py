"""The Learner: one update per batch, without RLlib's work per tensor."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping
from typing import Any

import torch
from ray.rllib.core import COMPONENT_OPTIMIZER, DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.utils.annotations import override
from torch import Tensor

from interreplay.buffer import Sample
from interreplay.errors import TrainingDiverged
from interreplay.learning.captured import CapturedUpdate
from interreplay.learning.networks.normalization import NormalizedEncoder, RewardScale
from interreplay.learning.networks.optimizers import PlainOptimizer
from interreplay.learning.update import Update, UpdateResult
from interreplay.rllib.algorithms.module import share_statistics
from interreplay.rllib.algorithms.update_group import UpdateGroup
from interreplay.rllib.host import ExactOptimizerStates
from interreplay.storage.state_copies import restore_generator
from interreplay.transitions import Observation, Transitions

UPDATE_STATE = "interreplay_update"
CONFIGURED = ("lr", "weight_decay", "eps", "decay", "decoupled_weight_decay")
"""Settings of optimizers that a configuration determines; older versions of PyTorch do not have the last one."""
UPDATES_BETWEEN_CHECKS = 100
"""Updates between checks of the losses within an iteration; a check on a GPU waits for the GPU."""


class BatchLearner(ExactOptimizerStates):
    """Learns from batches of any kind with the update of the configuration.

    Attributes:
        update_rule: The update of the algorithm.
        generator: Source of all random numbers of updates.
        updates: Number of updates in the whole run, including those before a resume.
        batches_define_loss: Whether a replay method sets targets or a loss, or scores rows under the current networks.
        reward_scale: Scales the rewards of batches; None if they are not scaled.
    """

    batches_define_loss: bool = False
    reward_scale: RewardScale | None = None
    config: Any
    _device: Any  # a `torch.device`
    _module: MultiRLModule
    update_rule: Any
    _captured: CapturedUpdate | None = None
    _group: UpdateGroup | None = None

    @override(TorchLearner)
    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        module: Any = self._module[module_id]
        module.to(self._device)
        share_statistics(module.nets)
        self.update_rule = self.config.make_update(module)
        for name, optimizer in self.update_rule.optimizers.items():
            params = _list_parameters(optimizer)
            self.register_optimizer(module_id=module_id, optimizer_name=name, optimizer=optimizer, params=params)
        self._captured = None
        # PyTorch's own optimizers use the CPU, so that CUDA graphs cannot contain their steps.
        plain = all(isinstance(one, PlainOptimizer) for one in self.update_rule.optimizers.values())
        if self.config.cuda_graph and has_graphs(self._device) and plain:
            self._captured = CapturedUpdate(self.update_rule, self._device)

    @override(TorchLearner)
    def build(self) -> None:
        super().build()
        self.generator = torch.Generator(device=self._device)
        seed = self.config.seed
        if seed is None:
            seed = torch.seed()
        self.generator.manual_seed(seed)
        self.updates = 0
        self._clear()

    def _clear(self) -> None:
        self._totals = torch.zeros(len(self.update_rule.metrics), dtype=torch.float64, device=self._device)
        self._since = 0

    @property
    def captures(self) -> bool:
        """Whether updates run as CUDA graphs."""
        return self._captured is not None

    @property
    def batch_device(self) -> torch.device:
        """Device where batches are expected: main memory if updates run as CUDA graphs, which copy them."""
        return torch.device("cpu") if self.captures else self._device

    def learn_from(self, batch: Any) -> Any:
        """Make one gradient update with a batch on any device, and return its result on the learner's device."""
        if self._group is not None and self.update_rule.updates >= self._group.begins_after:
            result = self._group.update(self, batch)
        elif self._captured is None:
            result = self.update_rule.update(batch.to(self._device), self.generator)
        else:
            result = self._captured.update(batch, self.generator)
        self.count(result.metrics)
        return result

    def join(self, group: UpdateGroup | None) -> None:
        """Make all further updates together with other learners; None makes them separately."""
        self._group = group

    def count(self, metrics: Tensor) -> None:
        """Count an update with its metrics."""
        self._totals += metrics
        self._since += 1
        self.updates += 1
        if self.updates % UPDATES_BETWEEN_CHECKS == 0:
            self.check_losses()

    def check_losses(self) -> list[float]:
        """Return the sums of all metrics since the last call of `collect_metrics`.

        Raises:
            TrainingDiverged: A loss is not finite.
        """
        totals: list[float] = self._totals.tolist()
        for name, total in zip(self.update_rule.metrics, totals, strict=True):
            if name.endswith("loss") and not math.isfinite(total):
                raise TrainingDiverged(name, total, self.updates)
        return totals

    def check_finite(self) -> None:
        """Raise TrainingDiverged if a loss or a weight is not finite; too slow for every update."""
        self.check_losses()
        parameters = dict(self.single_module.named_parameters())
        for name, optimizer in self.update_rule.optimizers.items():
            for i, parameter in enumerate(_list_parameters(optimizer)):
                parameters[f"parameter {i} of {name}"] = parameter
        for name, tensor in parameters.items():  # buffers are excluded: they may hold infinite constants
            bad = tensor.detach()[~torch.isfinite(tensor)]
            if len(bad):
                raise TrainingDiverged(name, float(bad[0]), self.updates)

    def observe(self, obs: Observation) -> None:
        """Update the running statistics of observations ``(n, ...)``, if networks normalize by them."""
        if isinstance(self._encoder, NormalizedEncoder):
            self._encoder.observe(obs)

    def set_rates(self, rates: dict[str, float]) -> None:
        """Set the learning rate of each optimizer by its name; a user's update may have other optimizers."""
        for name in rates.keys() & self.update_rule.optimizers.keys():
            for group in self.update_rule.optimizers[name].param_groups:
                group["lr"] = rates[name]

    def collect_metrics(self) -> dict[str, float]:
        """Return means over the updates since the last call, empty if there were none.

        Raises:
            TrainingDiverged: A loss is not finite.
        """
        if not self._since:
            return {}
        means = [total / self._since for total in self.check_losses()]
        self._clear()
        return dict(zip(self.update_rule.metrics, means, strict=True))

    def load_statistics(self, state: Mapping[str, Any]) -> None:
        """Restore the statistics of observations in a state of a learner."""
        own = state.get(UPDATE_STATE, {})
        if isinstance(self._encoder, NormalizedEncoder) and "observations" in own:
            self._encoder.load_statistics(own["observations"])

    @override(Learner)
    def compute_loss_for_module(self, **kwargs: Any) -> Tensor:
        raise NotImplementedError("this learner updates from its own batches; use learn_from")

    @override(Learner)
    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(UPDATE_STATE, components, not_components):
            state[UPDATE_STATE] = {
                "rng": self.generator.get_state().numpy(),
                "updates": self.updates,
                "totals": self._totals.cpu().numpy().copy(),
                "since": self._since,
                "rule": self.update_rule.state_dict(),
            }
            if isinstance(self._encoder, NormalizedEncoder):
                state[UPDATE_STATE]["observations"] = self._encoder.statistics()
            if self.reward_scale is not None:
                state[UPDATE_STATE]["rewards"] = self.reward_scale.state_dict()
        return state

    @override(Learner)
    def set_state(self, state: dict[str, Any]) -> None:
        configured = {}
        for name, optimizer in self.update_rule.optimizers.items():
            group = optimizer.param_groups[0]
            configured[name] = {key: group[key] for key in CONFIGURED if key in group}
        if COMPONENT_OPTIMIZER in state:  # optimizers would continue in the arrays of the state
            state = state | {COMPONENT_OPTIMIZER: copy.deepcopy(state[COMPONENT_OPTIMIZER])}
        super().set_state(state)
        for name, settings in configured.items():
            # A checkpoint contains its learning rates; the configuration's rates take precedence, as searches expect.
            self.update_rule.optimizers[name].param_groups[0].update(settings)
        if UPDATE_STATE in state:
            own = state[UPDATE_STATE]
            restore_generator(self.generator, own["rng"])
            self.updates = int(own["updates"])
            self._since = int(own["since"])
            self._totals = torch.as_tensor(own["totals"], device=self._device).clone()
            self.update_rule.load_state_dict(own["rule"])
            self.load_statistics(state)
            if self.reward_scale is not None and "rewards" in own:  # the parent of a fork may not have scaled rewards
                self.reward_scale.load_state_dict(own["rewards"])

    @property
    def single_module(self) -> Any:
        return self._module[DEFAULT_MODULE_ID]

    @property
    def _encoder(self) -> Any:
        return self.single_module.nets.encoder


class OffPolicyLearner(BatchLearner):
    """Learns from `Sample`s with the `Update` of the configuration."""

    update_rule: Update

    @override(BatchLearner)
    def build(self) -> None:
        super().build()
        if self.config.scale_rewards:
            self.reward_scale = RewardScale(self.config.gamma)

    @override(BatchLearner)
    def learn_from(self, batch: Sample) -> UpdateResult:
        if self.reward_scale is not None:
            batch = batch.replace(transitions=self.reward_scale.scale(batch.transitions))
        return super().learn_from(batch)

    def score(self, rows: Transitions, names: Collection[str]) -> dict[str, Tensor]:
        """Return scores ``(n,)`` of rows by their names, under the current networks."""
        if self.reward_scale is not None:
            rows = self.reward_scale.scale(rows)
        return self.update_rule.score(rows, names, self.generator)


def has_graphs(device: torch.device) -> bool:
    """Return whether a device runs CUDA graphs."""
    return device.type == "cuda"


def _list_parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    found = []
    for group in optimizer.param_groups:
        found += group["params"]
    return found
