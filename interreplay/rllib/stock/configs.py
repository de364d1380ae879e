"""RLlib's stock algorithms with our replay buffers: mixins for configurations and algorithms, and both applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.cql import CQL, CQLConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SAC, SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.algorithms.tqc.tqc import TQC
from ray.rllib.utils import replay_buffers as stock_buffers
from ray.rllib.utils.serialization import deserialize_type
from typing_extensions import Self

from interreplay.buffer.catalogue import Kind, check_arguments, resolve
from interreplay.rllib.stock.buffer import ReplayBuffer
from interreplay.rllib.stock.checks import check_recipe

DOTTED = "interreplay.rllib.ReplayBuffer"
ACCEPTED = "PrioritizedEpisodeReplayBuffer"
"""A type that every stock configuration accepts; ours is a subclass of it."""
COMPONENT = "replay_buffer"
"""Name of the buffer within a checkpoint."""


class ReplayMixin(AlgorithmConfig):
    """Lets a stock configuration use our replay buffers: ``class MyConfig(ReplayMixin, SACConfig)``.

    ``config.replay("NMER", capacity=100_000, k=10)`` and
    ``config.training(replay_buffer_config={"type": "NMER", "capacity": 100_000, "k": 10})`` mean the same.
    ``debugging(seed=...)`` also seeds the buffer, unless it is given a seed of its own.

    Where an algorithm learns from recorded episodes (CQL), the buffer is the one through which RLlib's data
    workers draw rows: each worker has its own, it holds ``capacity`` rows of what the worker has read, and
    RLlib returns no TD errors to it.
    """

    def replay(self, kind: Kind, **arguments: Any) -> Self:
        """Learn from this replay buffer, and keep its contents in checkpoints where the algorithm can.

        Args:
            kind: A name of the catalogue, a class or a factory.
            **arguments: Its arguments, such as ``capacity`` and ``k``.

        Raises:
            ValueError: When the name or an argument is unknown.
        """
        check_recipe(arguments)
        check_arguments(resolve(kind), arguments)
        self.replay_buffer_config = {"type": DOTTED, "buffer": kind, **arguments}
        self.store_buffer_in_checkpoints = True
        return self

    def validate(self) -> None:
        """Check the whole configuration, with our buffer taken for the stock one that it extends."""
        ours = self._spell_out()
        if ours and self.is_offline:
            self._hand_to_data_workers()
        with self._as_accepted(ours):
            super().validate()

    def _spell_out(self) -> bool:
        """Write ``{"type": "NMER", ...}`` as what RLlib can construct; false where the buffer is not ours."""
        kind = self.replay_buffer_config["type"]
        found = deserialize_type(kind) if isinstance(kind, str) and "." in kind else kind
        if kind == DOTTED or found is ReplayBuffer:
            self.replay_buffer_config["type"] = DOTTED
        elif isinstance(found, str) and hasattr(stock_buffers, found):
            return False
        elif isinstance(found, type) and issubclass(found, stock_buffers.EpisodeReplayBuffer):
            return issubclass(found, ReplayBuffer)  # a subclass by a user, or one of RLlib's by its class
        else:
            resolve(found)
            self.replay(found, **{k: v for k, v in self.replay_buffer_config.items() if k != "type"})
        if self.seed is not None:
            self.replay_buffer_config.setdefault("seed", self.seed)
        return True

    def _hand_to_data_workers(self) -> None:
        if not (self.input_read_episodes or self.input_read_sample_batches):
            raise ValueError(
                "rows recorded one by one pass no replay buffer; "
                "expected offline_data(input_read_episodes=True) or offline_data(input_read_sample_batches=True)"
            )
        arguments = {k: v for k, v in self.replay_buffer_config.items() if k not in ("type", "no_local_replay_buffer")}
        self.replay_buffer_config["no_local_replay_buffer"] = True
        self.offline_data(prelearner_buffer_class=ReplayBuffer, prelearner_buffer_kwargs=arguments)

    @contextmanager
    def _as_accepted(self, ours: bool) -> Iterator[None]:
        kind = self.replay_buffer_config["type"]
        try:
            if ours:
                self.replay_buffer_config["type"] = ACCEPTED
            yield
        finally:
            self.replay_buffer_config["type"] = kind


class BufferCheckpoints(Algorithm):
    """Lets a stock algorithm keep its replay buffer in checkpoints: ``class MySAC(BufferCheckpoints, SAC)``.

    RLlib's new stack ignores ``store_buffer_in_checkpoints``; here it is obeyed, for buffers of ours.
    """

    def get_state(self, components: Any = None, *, not_components: Any = None, **options: Any) -> dict[str, Any]:
        """Return the state of the algorithm, and that of its replay buffer."""
        state = super().get_state(components, not_components=not_components, **options)
        if self._keeps and self._check_component(COMPONENT, components, not_components):
            state[COMPONENT] = self.local_replay_buffer.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        super().set_state(state)
        if COMPONENT in state:
            self.local_replay_buffer.set_state(state[COMPONENT])

    @property
    def _keeps(self) -> bool:
        return isinstance(self.local_replay_buffer, ReplayBuffer) and self.config.store_buffer_in_checkpoints


def with_replay(config: Any, algorithm: Any) -> tuple[Any, Any]:
    """Return a stock configuration and its algorithm as classes that use our replay buffers.

    Args:
        config: RLlib's configuration.
        algorithm: RLlib's algorithm.

    Returns:
        ``StockSACConfig`` and ``StockSAC`` of ``SACConfig`` and ``SAC``; to be assigned to these names, by which
        checkpoints find them.
    """

    class Config(ReplayMixin, config):
        def __init__(self, algo_class: type | None = None):
            super().__init__(algo_class or Stock)

    class Stock(BufferCheckpoints, algorithm):
        @classmethod
        def get_default_config(cls) -> Any:
            """Return the configuration of this class."""
            return Config()

    for made, stock in ((Config, config), (Stock, algorithm)):
        made.__name__ = made.__qualname__ = f"Stock{stock.__name__}"
        made.__doc__ = f"RLlib's own {algorithm.__name__}, with our replay buffers."
    return Config, Stock


StockSACConfig, StockSAC = with_replay(SACConfig, SAC)
StockTQCConfig, StockTQC = with_replay(TQCConfig, TQC)
StockDQNConfig, StockDQN = with_replay(DQNConfig, DQN)
StockCQLConfig, StockCQL = with_replay(CQLConfig, CQL)
