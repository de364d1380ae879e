"""A runner for policies with memory: what they remember of each environment's episode, over steps, ends and resumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.utils.annotations import override
from torch import Tensor

from interreplay.learning.networks.memory import State
from interreplay.rllib.env_runner.runner import BatchEnvRunner


class RememberingRunner(BatchEnvRunner):
    """A `BatchEnvRunner` whose policy may have a `Memory`; every episode begins with an empty one."""

    _memory: State | None = None

    def remembered(self) -> State:
        """Return the state of the policy's memory, ``(n, cells)`` by name; nothing where it has none."""
        memory = self.module.policy.memory
        if memory is None:
            return {}
        if self._memory is None or len(self._memory["h"]) != self.num_envs:
            self._memory = memory.begin(self.num_envs)
        return self._memory

    @override(BatchEnvRunner)
    def _encoded(self) -> Tensor:
        rows, before = super()._encoded(), self.remembered()
        if before:
            rows, self._memory = self.module.policy.memory.step(rows, before)
        return rows

    @override(BatchEnvRunner)
    def _start(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        if self._memory is not None:
            going_on = torch.from_numpy(~which).to(self._device).unsqueeze(-1)
            self._memory = {name: part * going_on for name, part in self._memory.items()}
        super()._start(which, obs, infos)

    @override(BatchEnvRunner)
    def state_dict(self) -> dict[str, Any]:
        memory = None if self._memory is None else {name: part.cpu().numpy() for name, part in self._memory.items()}
        return super().state_dict() | {"memory": memory}

    @override(BatchEnvRunner)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        saved = state.get("memory") or {}
        made = {name: torch.as_tensor(np.array(part)).to(self._device) for name, part in saved.items()}
        self._memory = made or None
