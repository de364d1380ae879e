"""What the configurations of all algorithms that replay transitions have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.buffer.catalogue import Kind
from interreplay.experience import Mix
from interreplay.experience.recipes import as_settings
from interreplay.learning.losses import check_loss, chosen_losses
from interreplay.learning.settings import ActorCriticSettings, ReplaySettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.rllib.algorithms.rllib_names import replay_method
from interreplay.rllib.stock.buffer import DOTTED
from interreplay.rllib.stock.buffer import ReplayBuffer as StockReplayBuffer


class OffPolicyConfig(LoopConfig):
    """Settings shared by the off-policy algorithms; those of `LoopConfig`, and what is replayed."""

    loop_class = ReplaySettings
    settings_class: ClassVar[type] = ActorCriticSettings
    update_class: ClassVar[Any]

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.replay_buffer_config = {"type": "Uniform"}

    @override(LoopConfig)
    def replay(self, kind: Kind | Mix, **arguments: Any) -> Self:
        """Choose what is replayed.

        Args:
            kind: Name in the catalogue such as ``"NMER"``, a class, any factory of a `ReplayBuffer`, or a `Mix`; also
                a search space of Tune over these. RLlib's names of episode buffers mean ``"Uniform"`` and ``"PER"``.
            **arguments: Its arguments, also as search spaces. ``seed``, ``n_step``, ``gamma`` and ``device`` follow
                this configuration where they are not given.

        Raises:
            ValueError: When the name or an argument is unknown, with the nearest valid one.
        """
        return super().replay(kind, **arguments)

    @override(LoopConfig)
    def _replayed(self, kind: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        if kind is StockReplayBuffer or kind == DOTTED:
            arguments = dict(arguments)
            kind = arguments.pop("buffer", "Uniform")
        return as_settings(replay_method(kind), arguments)

    @override(LoopConfig)
    def validate(self) -> None:
        super().validate()
        self.check_loss()
        capacity = self.replay_buffer_config.get("capacity")
        if capacity is not None and capacity < self.train_batch_size_per_learner:
            raise ValueError(
                f"capacity is {capacity}; expected at least the batch size {self.train_batch_size_per_learner}"
            )

    def check_loss(self, brought_by: str | None = None) -> None:
        """Refuse settings of the critics' loss that contradict each other or the replay method, as `check_loss`."""
        check_loss(*chosen_losses(vars(self), self.settings_class), brought_by)

    @override(LoopConfig)
    def make_update(self, module: RLModule) -> Update:
        """Return the update of this algorithm for a module."""
        return self.update_class(module.nets, **self.update_settings())

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        from interreplay.rllib.algorithms.learner import OffPolicyLearner

        return OffPolicyLearner
